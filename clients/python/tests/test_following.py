"""Following an account: each transfer once and in order, across failures and restarts."""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from clients.python.tests.client_kinds import result_of
from clients.python.tests.scripts import Script, lost, refused, said
from ousel_client import AsyncFollow, BadRequest, ConnectionFailed, Follow, Transfer
from ousel_client.exchange import Answer, Outcome, Request
from ousel_client.following import Position
from ousel_client.waiting import HELD_SECONDS_MAX

GET = Request(method="GET", path="/transfers", query={"order": "oldest"})
PARTY = {"id": "acct_1", "username": "ada", "account_number": "OU1", "display_name": "Ada"}


async def take(follow: Any, count: int) -> list[Transfer]:
    """Return the next transfers of either kind of client."""
    if isinstance(follow, AsyncFollow):
        return [await anext(follow) for _ in range(count)]
    return await asyncio.to_thread(lambda: [next(follow) for _ in range(count)])


async def test_every_transfer_is_returned_once_from_any_cursor(client: Any) -> None:
    """A program that stored a cursor, or the sequence of a transfer, goes on after it."""
    first = await result_of(client.transfers.send(to="@ada", amount="1"))
    for _ in range(4):
        await result_of(client.transfers.send(to="@ada", amount="1"))
    follow = client.transfers.follow(first.sequence - 1, page_size=2)
    expected = await take(follow, 5)

    assert [each.sequence for each in expected] == list(range(first.sequence, first.sequence + 5))
    again = client.transfers.follow(first.sequence - 1, page_size=2)
    for number in range(4):
        assert await take(again, 1) == [expected[number]]
        rest = 4 - number
        assert await take(client.transfers.follow(again.cursor), rest) == expected[-rest:]


async def test_a_transfer_is_returned_when_it_happens(client: Any) -> None:
    """Following waits at the end for the next transfer, and applies its filters."""
    now = await result_of(client.transfers.send(to="@ada", amount="1"))
    follow = client.transfers.follow(now.sequence, direction="out", kind="transfer")
    waiting = asyncio.create_task(take(follow, 1))

    sent = await result_of(client.transfers.send(to="@grace", amount="2"))

    assert await waiting == [sent]
    assert follow.cursor is not None


class FollowedScript(Script):
    """A script that is followed, and plays one page after the other."""

    def follow(self, cursor: str | None = None, **policy: Any) -> Iterator[Transfer]:
        """Return the transfers of the scripted pages."""
        self.position = Position(self.settings(**policy), GET, cursor)
        while True:
            if not self.position._page:  # noqa: SLF001
                self.play(self.position._read_page())  # noqa: SLF001
            yield self.position._next_of_page()  # noqa: SLF001

    @property
    def cursors(self) -> list[str | None]:
        """The cursor of each request."""
        return [request.query.get("cursor") for request in self.requests]


def page(*sequences: int, cursor: str | None) -> Answer:
    """Return a page of transfers with these sequences."""
    data = [
        {
            "id": f"tr_{number}",
            "status": "completed",
            "kind": "funding",
            "direction": "in",
            "amount": 1,
            "currency": "OUSD",
            "from": PARTY,
            "to": PARTY,
            "note": None,
            "charge_id": None,
            "sequence": number,
            "balance_after": number,
            "idempotency_key": None,
            "created_at": "2026-01-31T12:00:00.000000Z",
        }
        for number in sequences
    ]
    return said(200, {"object": "list", "data": data, "has_more": False, "next_cursor": cursor})


def held(script: Script, answer: Outcome) -> Any:
    """Return an outcome that arrives after the delay that the request asked for."""

    def hold() -> Outcome:
        script.clock.now += script.requests[-1].held_seconds
        return answer

    return hold


def test_the_cursor_covers_what_was_returned_and_no_more() -> None:
    """Inside a page it is the number of the transfer; after the page it is the server's cursor."""
    script = FollowedScript([page(3, 4, cursor="four"), page(7, cursor="nine")])
    follow = script.follow("two")

    assert [(next(follow).sequence, script.position.cursor) for _ in range(3)] == [
        (3, "3"),
        (4, "four"),
        (7, "nine"),
    ]
    assert script.cursors == ["two", "four"]


def test_an_empty_page_moves_the_cursor() -> None:
    """With filters, the next cursor is past the transfers that do not match."""
    script = FollowedScript([])
    script.outcomes = [held(script, page(cursor="five")), page(8, cursor="eight")]

    assert next(script.follow()).sequence == 8
    assert script.cursors == [None, "five"]
    assert script.delays == [0.0, 0.0]
    assert {each.headers["Prefer"] for each in script.requests} == {f"wait={HELD_SECONDS_MAX}"}


def test_a_server_that_does_not_delay_its_answers_is_polled() -> None:
    """The pauses grow up to five seconds, and begin anew after a transfer."""
    empty = page(cursor="five")
    script = FollowedScript([*[empty] * 6, page(8, cursor="8"), empty, page(9, cursor="9")])
    follow = script.follow()

    assert [next(follow).sequence for _ in range(2)] == [8, 9]
    assert script.delays == [0.0, 0.5, 1.0, 2.0, 4.0, 5.0, 5.0, 0.0, 0.5]


@pytest.mark.parametrize("failure", [lost(), lost(sent=False), said(502), said(503), said(429)])
def test_failures_are_retried_for_as_long_as_they_last(failure: Outcome) -> None:
    """Once connected, following goes on after every outage.

    During the outage, it does not ask the server to delay its answers.
    """
    script = FollowedScript([page(1, cursor="1"), *[failure] * 30, page(2, cursor="2")])
    follow = script.follow(attempts_max=3)

    assert [next(follow).sequence for _ in range(2)] == [1, 2]
    assert max(script.delays) == 10.0
    assert [each.held_seconds for each in script.requests[2:]] == [0] * 30


def test_an_outage_that_lasts_is_logged_as_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    """From `attempts_max` failures in a row on, somebody should look. Any answer resets them."""
    caplog.set_level(logging.INFO, "ousel_client")
    outage = [said(503)] * 4
    script = FollowedScript(
        [page(1, cursor="1"), *outage, page(2, cursor="2"), *outage, page(3, cursor="3")]
    )
    follow = script.follow(attempts_max=3)

    assert [next(follow).sequence for _ in range(3)] == [1, 2, 3]
    levels = [each.levelname for each in caplog.records]
    assert levels == ["INFO", "INFO", "WARNING", "WARNING"] * 2


def test_a_page_without_a_next_cursor_is_not_read_again() -> None:
    """A missing cursor would otherwise mean the account's first transfer."""
    script = FollowedScript([])
    script.outcomes = [
        page(3, 4, cursor=None),
        held(script, page(cursor=None)),
        page(5, cursor="five"),
    ]
    follow = script.follow("2")

    assert [next(follow).sequence for _ in range(3)] == [3, 4, 5]
    assert script.cursors == ["2", "4", "4"]


def test_a_server_that_never_answers_is_an_error() -> None:
    """A wrong address is noticed: the retry policy limits the attempts before the first answer."""
    script = FollowedScript([lost(sent=False)] * 3)

    with pytest.raises(ConnectionFailed):
        next(script.follow(attempts_max=3))
    assert not script.outcomes


def test_a_refusal_is_raised_at_once() -> None:
    """A wrong cursor or a revoked key does not get better by asking again."""
    script = FollowedScript([page(1, cursor="1"), refused(400, "invalid_field", param="cursor")])
    follow = script.follow()
    next(follow)

    with pytest.raises(BadRequest):
        next(follow)


def test_the_server_says_when_to_ask_again() -> None:
    """Retry-After is added to the pause."""
    script = FollowedScript([said(429, retry_after="7"), page(1, cursor="1")])

    assert next(script.follow(random_share=0.0)).sequence == 1
    assert script.delays == [0.0, 7.0]


def test_the_client_asks_again_after_an_hour_at_most() -> None:
    """However long the server asks to wait, following does not end."""
    script = FollowedScript([said(429, retry_after="9" * 30), page(1, cursor="1")])

    assert next(script.follow(random_share=0.0)).sequence == 1
    assert script.delays == [0.0, 3600.0]


def test_a_follow_is_an_iterator() -> None:
    """So `for` works on it, and so does `async for`."""
    assert issubclass(Follow, Iterator)
    assert issubclass(AsyncFollow, AsyncIterator)
