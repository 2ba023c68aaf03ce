"""Transfers: each intent moves once, and can be found by its idempotency key."""

import asyncio
import inspect
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import httpx2
import pytest
from typing_extensions import override

from clients.python.tests.client_kinds import ClientKind, all_of, client_of, result_of
from ousel_client import (
    AsyncClient,
    BadRequest,
    Client,
    IdempotencyConflict,
    OuselError,
    RetryPolicy,
    ServerError,
    Transfer,
    TransferIntent,
    UnexpectedAnswer,
)
from ousel_client.refusals import AccountNotFound, InsufficientBalance, InvalidAmount, SameAccount
from tests.support.seeded import SeededServer

NOW = datetime(2100, 1, 1, tzinfo=UTC)


async def test_a_transfer_is_sent_and_contains_its_key(client: Any) -> None:
    """If no key is given, one is created, and the transfer contains it."""
    before = (await result_of(client.balance())).available

    transfer = await result_of(client.transfers.send(to="@ada", amount="25.50", note="Hello"))

    assert isinstance(transfer, Transfer)
    assert (transfer.amount, transfer.note) == (Decimal("25.50"), "Hello")
    assert (transfer.from_.username, transfer.to.username) == ("harbour", "ada")
    assert (transfer.direction, transfer.kind, transfer.status) == ("out", "transfer", "completed")
    assert transfer.balance_after == before - Decimal("25.50")
    assert transfer.idempotency_key is not None
    assert len(transfer.idempotency_key) == 32


async def test_an_intent_sent_twice_moves_once(client: Any) -> None:
    """The same intent returns the same transfer."""
    intent = client.transfers.prepare(to="@grace", amount=3)

    first = await result_of(client.transfers.send(intent))
    again = await result_of(client.transfers.send(intent))

    assert first == again
    assert first.idempotency_key == intent.idempotency_key


async def test_created_keys_differ_and_sort_by_time(client: Any) -> None:
    """Created keys are unique, and sort by time."""
    keys = [client.transfers.prepare(to="@ada", amount=1).idempotency_key for _ in range(1000)]

    assert len(set(keys)) == 1000
    assert [key[:12] for key in keys] == sorted(key[:12] for key in keys)


async def test_the_callers_own_key_is_sent(client: Any, client_kind: ClientKind) -> None:
    """The caller's key is sent, and `find` finds the transfer by it."""
    key = f"order/{client_kind}~1"

    sent = await result_of(client.transfers.send(to="@ada", amount=1, idempotency_key=key))

    assert sent.idempotency_key == key
    assert await result_of(client.transfers.find(idempotency_key=key)) == sent
    assert await result_of(client.transfers.find(idempotency_key=f"{key}0")) is None


@pytest.mark.parametrize("key", ["", "a b", "\n", "\u00e9", "k" * 256])
async def test_a_key_that_cannot_be_sent_is_refused_here(client: Any, key: str) -> None:
    """An invalid key is refused before anything is sent."""
    with pytest.raises(ValueError, match="visible ASCII"):
        client.transfers.prepare(to="@ada", amount=1, idempotency_key=key)
    with pytest.raises(ValueError, match="visible ASCII"):
        TransferIntent(to="@ada", amount=Decimal(1), idempotency_key=key)


def test_an_intent_without_a_key_is_refused() -> None:
    """A program may have stored it without one; sent again, it would move the money again."""
    missing: Any = None
    with pytest.raises(TypeError, match="idempotency key"):
        TransferIntent(to="@ada", amount=Decimal(1), idempotency_key=missing)


@pytest.mark.parametrize(
    ("parts", "kind"),
    [
        ({"to": "@ada", "amount": "0.0000001"}, InvalidAmount),
        ({"to": "@ada", "amount": -1}, InvalidAmount),
        ({"to": "@ada", "amount": "999999999"}, InsufficientBalance),
        ({"to": "@harbour", "amount": 1}, SameAccount),
        ({"to": "@nobody", "amount": 1}, AccountNotFound),
        ({"to": "@ada", "amount": 1, "note": "n" * 501}, BadRequest),
    ],
)
async def test_a_refusal_is_raised_at_once_with_its_key(
    client: Any, parts: dict[str, Any], kind: type[Exception]
) -> None:
    """A refusal is not retried; the exception contains the key, which can be used again."""
    with pytest.raises(kind) as raised:
        await result_of(client.transfers.send(**parts))

    assert isinstance(raised.value, BadRequest | AccountNotFound)
    assert raised.value.attempts == 1
    assert raised.value.idempotency_key is not None
    await result_of(
        client.transfers.send(to="@ada", amount=1, idempotency_key=raised.value.idempotency_key)
    )


async def test_a_conflict_contains_the_original_transfer(client: Any) -> None:
    """If a key was used for another transfer, the error contains that transfer."""
    first = await result_of(client.transfers.send(to="@ada", amount=1))
    assert first.idempotency_key is not None

    for changes in ({"amount": 2}, {"to": "@grace"}, {"note": "other"}):
        parts = {"to": "@ada", "amount": 1, "idempotency_key": first.idempotency_key} | changes
        with pytest.raises(IdempotencyConflict) as raised:
            await result_of(client.transfers.send(**parts))

        assert raised.value.original == first
        assert raised.value.idempotency_key == first.idempotency_key
        assert raised.value.members == {"transfer_id": first.id}


@pytest.mark.parametrize("to", ["@ada", "ADA@example.com", "account number"])
async def test_a_conflict_with_the_same_transfer_is_success(
    client: Any, live: SeededServer, client_kind: ClientKind, to: str
) -> None:
    """If the server answers 409 although the original is the same, the original is returned."""
    if to == "account number":
        to = (await result_of(client.accounts.get("@ada"))).account_number
    first = await result_of(client.transfers.send(to="@ada", amount="2.5", note="once"))

    async with client_of(
        client_kind, live.key, live.base_url, transport=strict(client_kind)
    ) as other:
        again = await result_of(
            other.transfers.send(
                to=to, amount="2.50", note="once", idempotency_key=first.idempotency_key
            )
        )

    assert again == first


async def test_a_conflict_whose_original_cannot_be_found_is_raised(
    live: SeededServer, client_kind: ClientKind
) -> None:
    """If the original is not found, the client cannot compare it."""
    async with client_of(
        client_kind, live.key, live.base_url, transport=strict(client_kind)
    ) as client:
        with pytest.raises(IdempotencyConflict) as raised:
            await result_of(client.transfers.send(to="@ada", amount=1))

    assert raised.value.original is None


async def test_an_error_does_not_hide_a_conflict(
    client: Any, live: SeededServer, client_kind: ClientKind
) -> None:
    """If the recipient is not found any more, the client still tells what the key was used for."""
    first = await result_of(client.transfers.send(to="@ada", amount="2.5"))
    key = first.idempotency_key

    async with client_of(
        client_kind, live.key, live.base_url, transport=strict(client_kind)
    ) as other:
        with pytest.raises(IdempotencyConflict) as raised:
            await result_of(
                other.transfers.send(to="moved@example.com", amount="2.5", idempotency_key=key)
            )

    assert raised.value.original == first
    assert raised.value.idempotency_key == key
    assert isinstance(raised.value.__cause__, AccountNotFound)


@pytest.mark.parametrize("original_amount", [None, 7])
def test_a_conflict_with_another_transfer_leaves_no_doubt(original_amount: int | None) -> None:
    """If the other transfer is found, the key belongs to it, whatever the first attempt did."""
    answers = [httpx2.Response(503)]
    found = [] if original_amount is None else [transfer_json(amount=original_amount)]

    def answer(request: httpx2.Request) -> httpx2.Response:
        if request.method == "GET":
            return httpx2.Response(200, json=page_json(*found))
        return answers.pop() if answers else _conflict()

    transport = httpx2.MockTransport(answer)
    with (
        Client("sk_live_any", base_url="http://pay.example/v1", transport=transport) as client,
        pytest.raises(IdempotencyConflict) as raised,
    ):
        client.transfers.send(to="@ada", amount=1, idempotency_key="mine")

    assert raised.value.in_doubt is (original_amount is None)
    assert raised.value.attempts == 2


@pytest.mark.parametrize("key", ["another", None])
def test_an_answer_with_another_key_leaves_doubt(key: str | None) -> None:
    """It belongs to another request: a proxy or a shared connection has mixed the answers up."""
    other = transfer_json(amount=1, idempotency_key=key)
    transport = httpx2.MockTransport(lambda _: httpx2.Response(201, json=other))
    with (
        Client("sk_live_any", base_url="http://pay.example/v1", transport=transport) as client,
        pytest.raises(UnexpectedAnswer, match="another idempotency key") as raised,
    ):
        client.transfers.send(to="@ada", amount=1, idempotency_key="mine")

    assert (raised.value.in_doubt, raised.value.idempotency_key) == (True, "mine")


def test_an_exception_of_others_has_the_key_in_a_note() -> None:
    """A signal may end the program in the middle of a transfer. Its traceback shows the key."""

    def interrupt(_: httpx2.Request) -> httpx2.Response:
        raise KeyboardInterrupt

    transport = httpx2.MockTransport(interrupt)
    with Client("sk_live_any", base_url="http://pay.example/v1", transport=transport) as client:
        with pytest.raises(KeyboardInterrupt) as sending:
            client.transfers.send(to="@ada", amount=1, idempotency_key="mine")
        with pytest.raises(KeyboardInterrupt) as creating:
            client.charges.create(amount=1, idempotency_key="mine")

    for raised in (sending, creating):
        assert raised.value.__notes__ == ["The idempotency key is mine."]


async def test_a_canceled_call_has_the_key_in_a_note() -> None:
    """A time limit cancels the transfer, which may already be made."""

    async def never(_: httpx2.Request) -> httpx2.Response:
        await asyncio.Event().wait()
        raise AssertionError

    transport = httpx2.MockTransport(never)
    async with AsyncClient(
        "sk_live_any", base_url="http://pay.example/v1", transport=transport
    ) as client:
        with pytest.raises(TimeoutError) as raised:
            async with asyncio.timeout(0.05):
                await client.transfers.send(to="@ada", amount=1, idempotency_key="mine")

    canceled = raised.value.__context__  # the first versions of Python 3.11 set no cause
    assert isinstance(canceled, asyncio.CancelledError)
    assert canceled.__notes__ == ["The idempotency key is mine."]


def test_help_describes_send(client: Any) -> None:
    """The method is made by a descriptor, but has the text that people look for."""
    assert "retry" in (inspect.getdoc(client.transfers.send) or "")


@pytest.mark.parametrize("status", [429, 503])
def test_a_failure_that_may_pass_leaves_doubt_about_a_conflict(status: int) -> None:
    """Nobody knows yet what the key was used for, so the caller must not take another."""
    transport = httpx2.MockTransport(
        lambda request: _conflict() if request.method == "POST" else httpx2.Response(status)
    )
    policy = RetryPolicy(attempts_max=1)
    with (
        Client(
            "sk_live_any", base_url="http://pay.example/v1", retry=policy, transport=transport
        ) as client,
        pytest.raises(OuselError) as raised,
    ):
        client.transfers.send(to="@ada", amount=1, idempotency_key="mine")

    assert not isinstance(raised.value, IdempotencyConflict)
    assert (raised.value.in_doubt, raised.value.idempotency_key) == (True, "mine")


def test_wrong_arguments_send_nothing() -> None:
    """A key that a program has read as None is not a new one, and an intent is not changed."""
    transport = httpx2.MockTransport(lambda _: pytest.fail("something was sent"))
    with Client("sk_live_any", base_url="http://pay.example/v1", transport=transport) as client:
        intent = client.transfers.prepare(to="@ada", amount=1)
        send: Any = client.transfers.send
        find: Any = client.transfers.find
        with pytest.raises(TypeError, match="not both"):
            send(intent, amount=2)
        with pytest.raises(TypeError, match="Give the idempotency key"):
            find(idempotency_key=None)


@pytest.mark.parametrize("content", [b"<h1>Welcome</h1>", b"{}", b'{"leaf": "bGVhZg=="}'])
def test_an_answer_that_is_no_receipt_is_unexpected(content: bytes) -> None:
    """It would be stored as a receipt, and refused years later."""
    portal = httpx2.MockTransport(lambda _: httpx2.Response(200, content=content))
    with (
        Client("sk_live_any", base_url="http://pay.example/v1", transport=portal) as client,
        pytest.raises(UnexpectedAnswer),
    ):
        client.transfers.receipt("tr_1")


async def test_a_list_has_pages(client: Any) -> None:
    """Each matching transfer is listed once, newest first, whatever the page size."""
    begun = (await result_of(client.transfers.send(to="@edsger", amount=1))).created_at
    sent = [await result_of(client.transfers.send(to="@alan", amount=1)) for _ in range(5)]

    for page_size in (1, 2, 5, 6, 100):
        found = await all_of(client.transfers.list(created_after=begun, page_size=page_size))

        assert found == sent[::-1]


async def test_a_list_is_filtered(client: Any) -> None:
    """Transfers are filtered by direction, kind and time."""
    await result_of(client.transfers.send(to="@alan", amount=1))

    incoming = await all_of(client.transfers.list(direction="in"))
    fundings = await all_of(client.transfers.list(kind="funding"))
    future = await all_of(client.transfers.list(created_after=NOW))
    elsewhere = NOW.astimezone(tz=datetime.fromisoformat("2100-01-01T00:00:00+05:30").tzinfo)
    past = await all_of(client.transfers.list(created_before=elsewhere, direction="out"))

    assert [each.kind for each in incoming] == ["funding"]
    assert fundings == incoming
    assert future == []
    assert {each.direction for each in past} == {"out"}


async def test_a_moment_needs_a_zone(client: Any) -> None:
    """A time without a zone is ambiguous, so it raises ValueError."""
    naive = (NOW - timedelta(days=1)).replace(tzinfo=None)
    with pytest.raises(ValueError, match="time zone"):
        await all_of(client.transfers.list(created_after=naive))


def test_an_answer_from_something_else_leaves_doubt() -> None:
    """A 200 that contains no transfer raises an error in doubt, which contains the key."""
    portal = httpx2.MockTransport(lambda _: httpx2.Response(200, html="<h1>Welcome</h1>"))
    with (
        Client("sk_live_any", base_url="http://pay.example/v1", transport=portal) as client,
        pytest.raises(UnexpectedAnswer) as raised,
    ):
        client.transfers.send(to="@ada", amount=1, idempotency_key="mine")

    assert (raised.value.in_doubt, raised.value.idempotency_key) == (True, "mine")


def test_every_attempt_is_the_same_request_to_the_byte() -> None:
    """Every attempt has the body and the key of the first."""
    seen: list[tuple[bytes, str]] = []

    def unavailable(request: httpx2.Request) -> httpx2.Response:
        seen.append((request.content, request.headers["Idempotency-Key"]))
        return httpx2.Response(503)

    policy = RetryPolicy(attempts_max=4, first_delay_seconds=0)
    transport = httpx2.MockTransport(unavailable)
    with (
        Client(
            "sk_live_any", base_url="http://pay.example/v1", retry=policy, transport=transport
        ) as client,
        pytest.raises(ServerError) as raised,
    ):
        client.transfers.send(to="@ada", amount="0.10", note="n")

    key = raised.value.idempotency_key
    assert seen == [(b'{"to":"@ada","amount":0.10,"note":"n"}', key)] * 4
    assert raised.value.in_doubt is True


class StrictTransport(httpx2.HTTPTransport):
    """Answers 409 to every transfer, and sends all other requests to the server."""

    @override
    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        return _conflict() if request.method == "POST" else super().handle_request(request)


class AsyncStrictTransport(httpx2.AsyncHTTPTransport):
    """The same for the asyncio client."""

    @override
    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if request.method == "POST":
            return _conflict()
        return await super().handle_async_request(request)


def transfer_json(**changes: Any) -> dict[str, Any]:
    """Return a transfer as the server sends it, with these fields changed."""
    party = {"id": "acct_1", "username": "u", "account_number": "OU1", "display_name": "D"}
    return {
        "object": "transfer",
        "id": "tr_1",
        "status": "completed",
        "kind": "transfer",
        "direction": "out",
        "currency": "OUSD",
        "from": party,
        "to": party,
        "note": None,
        "charge_id": None,
        "sequence": 1,
        "balance_after": 1,
        "idempotency_key": "mine",
        "created_at": "2026-01-31T12:00:00.000000Z",
        **changes,
    }


def page_json(*records: dict[str, Any]) -> dict[str, Any]:
    """Return a page of these records as the server sends it."""
    return {"object": "list", "data": list(records), "has_more": False, "next_cursor": None}


def _conflict() -> httpx2.Response:
    return httpx2.Response(409, json={"code": "idempotency_conflict", "detail": "Used."})


def strict(client_kind: ClientKind) -> Any:
    """Return a transport for this kind of client."""
    transport = StrictTransport if client_kind == "synchronous" else AsyncStrictTransport
    return transport(verify=False)
