"""Queries: a parameter is known, given once and well-formed, or the request is refused."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ousel.api.decoding import decode_query
from ousel.api.paging import cursor_at
from ousel.kernel.errors import Refusal
from tests.support.problems import assert_problem
from tests.support.world import World

pytestmark = pytest.mark.one_engine

INVALID = {
    "limit": (
        *("0", "101", "-1", "1.0", "1e1", "", " 1", "1_0", "%2B5", "005", "null", "true", "ten"),
        *("9" * 30, "%D9%A1", "1,2", "0x10"),
    ),
    "cursor": ("", "null", "5", "%00", "x" * 65, "YWZ0ZXI6MA", "YWZ0ZXI6NQ==", "%F0%9F%92%B6"),
    "direction": ("", "null", "NULL", "up", "IN", "out "),
    "kind": ("", "null", "None", "transfers", "TRANSFER"),
    "created_after": (
        *("", "null", "now", "2026-01-31", "2026-01-31T12:00:00", "20260131T120000Z", "%00"),
        *("2026-13-01T00:00:00Z", "2026-02-30T00:00:00Z", "2026-01-31T25:00:00Z", "1700000000"),
        *("2026-W05-1T12:00:00Z", "2026-01-31T12:00:00+00:00", "99999-01-01T00:00:00Z"),
    ),
    "created_before": ("", "yesterday", "2026-01-31T12:00Z", "-001-01-01T00:00:00Z"),
}
VALID = (
    *("limit=1", "limit=100", "direction=in", "direction=out", "kind=funding", "&", "limit=5&"),
    *("kind=charge_payment&direction=out&limit=3", "created_after=2026-01-31T12:00:00Z"),
    *("created_after=2026-01-31T12:00:00.123456%2B02:00", "created_before=0001-01-01T00:00:00Z"),
    *(
        "created_before=9999-12-31T23:59:59.999999-23:59",
        "created_after=0001-01-01T00:00:00%2B14:00",
    ),
)


async def test_each_invalid_value_is_named(world: World, subtests: pytest.Subtests) -> None:
    """A value that is out of range, misspelt or of another form: 400 that names its parameter."""
    async with world.partner() as caller:
        for name, values in INVALID.items():
            for value in values:
                with subtests.test(parameter=name, value=value[:30]):
                    answer = await caller.client.get(f"/transfers?{name}={value}")

                    assert_problem(answer, 400, "invalid_field", name)


async def test_the_allowed_words_are_named(world: World) -> None:
    """A misspelt word is refused with those that are allowed."""
    async with world.partner() as caller:
        direction = await caller.client.get("/transfers?direction=up")
        status = await caller.client.get("/charges?status=Paid")

    assert "direction is not valid: the allowed values are: in, out." in direction.text
    assert "status is not valid: the allowed values are: created, paid," in status.text


async def test_a_cursor_is_one_that_a_page_gave(world: World) -> None:
    """A position that no page gives, or a cursor that was edited, is refused."""
    async with world.partner("1") as caller:
        for position in (0, -1, 2**63, 10**30):
            answer = await caller.client.get("/transfers", params={"cursor": cursor_at(position)})

            assert_problem(answer, 400, "invalid_field", "cursor")
        furthest = await caller.client.get("/transfers", params={"cursor": cursor_at(2**63 - 1)})

    assert furthest.status_code == 200, furthest.text


async def test_valid_values_are_taken(world: World, subtests: pytest.Subtests) -> None:
    """Each parameter alone, together with others, and the extremes of time."""
    async with world.partner("1") as caller:
        for query in VALID:
            with subtests.test(query=query):
                answer = await caller.client.get(f"/transfers?{query}")

                assert answer.status_code == 200, answer.text


async def test_an_unknown_parameter_is_refused(world: World, subtests: pytest.Subtests) -> None:
    """A misspelt parameter must not widen a list silently; nor may one stand where none does."""
    cases = {
        "/transfers?limi=5": "limi",
        "/transfers?Limit=5": "Limit",
        "/transfers?limit=5;kind=funding": "limit",
        "/transfers?status=paid": "status",
        "/transfers?=5": "",
        "/me?x=1": "x",
        "/balance?limit=1": "limit",
        "/accounts/@ada?fields=all": "fields",
        f"/transfers?{'a' * 5000}=1": "a" * 100,
    }
    async with world.partner() as caller:
        for path, param in cases.items():
            with subtests.test(path=path[:40]):
                answer = await caller.client.get(path)

                code = "invalid_field" if ";" in path else "unknown_parameter"
                assert_problem(answer, 400, code, param)


async def test_a_parameter_is_given_once(world: World, subtests: pytest.Subtests) -> None:
    """The same parameter twice is refused, even with the same value."""
    async with world.partner() as caller:
        for query in ("limit=1&limit=1", "limit=1&limit=2", "limit=1&kind=funding&limit=1"):
            with subtests.test(query=query):
                answer = await caller.client.get(f"/transfers?{query}")

                assert_problem(answer, 400, "invalid_field", "limit")
        long = "a" * 5000
        answer = await caller.client.get(f"/transfers?{long}=1&{long}=2")

    assert_problem(answer, 400, "invalid_field", "a" * 100)


async def test_a_query_that_is_no_text_is_refused(world: World, subtests: pytest.Subtests) -> None:
    """Bytes that are not UTF-8, or more parameters than any endpoint has."""
    async with world.partner() as caller:
        for query in ("cursor=%ff", "%ff=1", "&".join(f"p{number}=1" for number in range(60))):
            with subtests.test(query=query[:30]):
                answer = await caller.client.get(f"/transfers?{query}")

                assert_problem(answer, 400, "invalid_field", "query")


class Query(msgspec.Struct, forbid_unknown_fields=True):
    """A query with two parameters."""

    a: str | None = None
    b: int | None = None


def decoded(query: str) -> tuple[object, ...]:
    """Return what a query means, or how it is refused."""
    try:
        return msgspec.structs.astuple(decode_query(query.encode(), Query))
    except Refusal as refusal:
        return refusal.code, refusal.detail


@given(query=st.text("ab1=&;", max_size=20))
def test_escapes_change_no_meaning(query: str) -> None:
    """A parameter means the same whether its characters are escaped or not."""
    escaped = query.translate({ord(each): f"%{ord(each):x}" for each in "ab1"})
    assert decoded(escaped) == decoded(query)
