"""Moments: whole microseconds, written and read as RFC 3339."""

import time
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ousel.kernel.clock import (
    micros_from_timestamp,
    system_clock,
    timestamp,
)
from ousel.kernel.errors import InvalidField
from tests.support.clock import TIME_MICROS_MAX

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def test_the_system_clock_tells_microseconds_of_today() -> None:
    """The clock agrees with the system's time, in microseconds."""
    before = time.time_ns()
    moment = system_clock()
    after = time.time_ns()

    assert before // 1_000 <= moment <= after // 1_000


@pytest.mark.parametrize(
    ("micros", "text"),
    [
        (0, "1970-01-01T00:00:00.000000Z"),
        (1, "1970-01-01T00:00:00.000001Z"),
        (1_767_225_599_999_999, "2025-12-31T23:59:59.999999Z"),
        (1_709_164_800_000_000, "2024-02-29T00:00:00.000000Z"),
        (TIME_MICROS_MAX, "9999-12-31T23:59:59.999999Z"),
    ],
)
def test_a_moment_is_written_with_microseconds_and_z(micros: int, text: str) -> None:
    """A timestamp is RFC 3339, UTC, with six decimals."""
    assert timestamp(micros) == text


@given(st.integers(min_value=0, max_value=TIME_MICROS_MAX))
def test_a_timestamp_is_read_back(micros: int) -> None:
    """A moment survives the way to text and back, and other readers agree."""
    text = timestamp(micros)

    assert micros_from_timestamp(text, param="created_after") == micros
    assert datetime.fromisoformat(text) - EPOCH == timedelta(microseconds=micros)


@given(st.datetimes(), st.integers(min_value=-23 * 60, max_value=23 * 60))
def test_zones_are_honoured(local: datetime, zone_minutes: int) -> None:
    """The same moment in any zone is the same number."""
    moment = local.replace(tzinfo=timezone(timedelta(minutes=zone_minutes)))

    micros = micros_from_timestamp(moment.isoformat(), param="created_after")

    assert timedelta(microseconds=micros) == moment - EPOCH


@pytest.mark.parametrize(
    "text",
    [
        "2026-01-31T12:00:00Z",
        "2026-01-31t12:00:00z",
        "2026-01-31 12:00:00Z",
        "2026-01-31T12:00:00.0Z",
        "2026-01-31T12:00:00.000000999Z",
        "2026-01-31T12:00:00+00:00",
        "2026-01-31T12:00:00-00:00",
        "2026-01-31T13:30:00+01:30",
        "2026-01-31T04:00:00.000-08:00",
    ],
)
def test_every_spelling_of_rfc_3339_is_read(text: str) -> None:
    """Zones, fractions of any length and small letters: all say noon of that day."""
    assert micros_from_timestamp(text, param="created_after") == 1_769_860_800_000_000


@pytest.mark.parametrize(
    "text",
    [
        "",
        "yesterday",
        "1769860800",
        "2026-01-31",
        "2026-01-31T12:00:00",
        "2026-01-31T12:00Z",
        "20260131T120000Z",
        "2026-W05-6T12:00:00Z",
        "2026-01-31T12:00:00,5Z",
        "2026-01-31T12:00:00.Z",
        "2026-01-31T12:00:00 00:00",
        "2026-01-31T12:00:00+0100",
        "2026-01-31T12:00:00+25:00",
        "2026-02-30T12:00:00Z",
        "2026-01-31T25:00:00Z",
        "2026-01-31T12:00:61Z",
        " 2026-01-31T12:00:00Z",
        "2026-01-31T12:00:00Z\n",
        "\uff12026-01-31T12:00:00Z",
        "2026-01-31T12:00:00\ud800",
    ],
)
def test_what_is_no_rfc_3339_time_with_a_zone_is_refused(text: str) -> None:
    """A time without a zone, a date alone or an impossible day is refused by its field."""
    with pytest.raises(InvalidField, match="created_after must be an RFC 3339") as refused:
        micros_from_timestamp(text, param="created_after")

    assert refused.value.param == "created_after"
