"""Trace context (W3C): a caller's trace is continued, and an invalid header is ignored."""

import re
from pathlib import Path

import pytest

from ousel.api.traces import TraceParent, parse_trace_parent
from tests.support.engines import Engines
from tests.support.in_process import in_process_client

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
ORIGIN = "http://127.0.0.1:8000"
SPAN = "00f067aa0ba902b7"


@pytest.fixture
def file_url(engines: Engines, tmp_path: Path) -> str:
    """The address of a fresh SQLite database."""
    return engines.fresh_url("sqlite", tmp_path)


@pytest.mark.parametrize(
    ("header", "sampled"),
    [
        (f"00-{TRACE}-{SPAN}-01", True),
        (f"00-{TRACE}-{SPAN}-00", False),
        (f"00-{TRACE}-{SPAN}-03", True),
        (f"00-{TRACE}-{SPAN}-fe", False),
        (f"01-{TRACE}-{SPAN}-01", True),
        (f"cc-{TRACE}-{SPAN}-01-what-the-future-brings", True),
    ],
)
def test_a_valid_header_is_understood(header: str, *, sampled: bool) -> None:
    """Of version 00, and as much as that of any later one; only the last bit of flags counts."""
    assert parse_trace_parent(header.encode()) == TraceParent(TRACE, SPAN, is_sampled=sampled)


@pytest.mark.parametrize(
    "header",
    [
        "",
        "00",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-01-more",
        f"00-{TRACE}-{SPAN}-01-",
        f"00-{TRACE}-{SPAN}-1",
        f"00-{TRACE}-{SPAN}-01 ",
        f"00-{TRACE[1:]}-{SPAN}-01",
        f"0-{TRACE}-{SPAN}-01",
        f"01-{TRACE}-{SPAN}-01.",
        f"00-{TRACE}-{SPAN}-01, 00-{TRACE}-{SPAN}-01",
        f"00_{TRACE}_{SPAN}_01",
        f"00-{TRACE}-{SPAN}-0g",
    ],
)
def test_an_invalid_header_counts_as_none(header: str) -> None:
    """An invalid header is ignored."""
    assert parse_trace_parent(header.encode()) is None


async def test_the_answer_names_the_trace_and_our_part_in_it(file_url: str) -> None:
    """Every answer has a traceresponse; each request has its own span id."""
    headers = {"traceparent": f"00-{TRACE}-{SPAN}-01"}
    async with in_process_client(file_url) as client:
        answers = [
            await client.get(f"{ORIGIN}{path}", headers=headers)
            for path in ("/healthz", "/v1/me", "/v1/nothing", "/login")
        ]

    responses = [answer.headers["traceresponse"] for answer in answers]
    assert [answer.status_code for answer in answers] == [200, 401, 404, 200]
    assert all(re.fullmatch(f"00-{TRACE}-[0-9a-f]{{16}}-00", each) for each in responses)
    assert len({SPAN, *(each.split("-")[2] for each in responses)}) == 5


@pytest.mark.parametrize("header", [None, "nonsense", f"ff-{TRACE}-{SPAN}-01"])
async def test_without_a_trace_there_is_nothing_to_name(file_url: str, header: str | None) -> None:
    """No header, or one that is not valid: the answer is as ever."""
    async with in_process_client(file_url) as client:
        answer = await client.get(
            f"{ORIGIN}/healthz", headers={"traceparent": header} if header else {}
        )

    assert answer.status_code == 200
    assert "traceresponse" not in answer.headers
