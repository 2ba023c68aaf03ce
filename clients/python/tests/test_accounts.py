"""Reading accounts and balances."""

import math
from datetime import UTC
from typing import Any

import pytest

from clients.python.tests.client_kinds import ClientKind, client_of, result_of
from ousel_client import (
    Account,
    AsyncClient,
    AsyncUserClient,
    Balance,
    Client,
    ConnectionFailed,
    OwnAccount,
    UserClient,
)
from ousel_client.refusals import AccountNotFound, NotFound, Unauthorized
from tests.support.ports import free_port
from tests.support.seeded import SeededServer


async def test_me_is_the_key_owner_and_the_app(client: Any, live: SeededServer) -> None:
    """The owner sees the whole account, and which app the key belongs to."""
    me = await result_of(client.me())

    assert isinstance(me, OwnAccount)
    assert (me.username, me.email, me.status) == ("harbour", "harbour@example.com", "active")
    assert (me.app.client_id, me.app.name) == (live.app.id, "Harbour App")
    assert me.created_at.tzinfo == UTC


async def test_balance_is_exact(client: Any) -> None:
    """The balance is the exact decimal that the last transfer left."""
    moved = await result_of(client.transfers.send(to="@ada", amount="0.000001"))

    balance = await result_of(client.balance())

    assert isinstance(balance, Balance)
    assert (balance.available, balance.currency) == (moved.balance_after, "OUSD")
    assert balance.updated_at == moved.created_at


async def test_an_account_is_found_by_each_of_its_names(client: Any) -> None:
    """Username, email and account number, in upper or lower case, find the same account."""
    ada = await result_of(client.accounts.get("@ada"))

    assert type(ada) is Account
    for name in ("@ADA", "ada@example.com", ada.account_number, ada.account_number.lower()):
        assert await result_of(client.accounts.get(name)) == ada


@pytest.mark.parametrize(
    "name", ["@nobody", "no/body", "?", "#", "%2e", "@\u00e4", "a b", "x" * 300]
)
async def test_a_name_that_nobody_has_is_not_found(client: Any, name: str) -> None:
    """Whatever characters the name has, it stays one segment of the path."""
    with pytest.raises((AccountNotFound, NotFound)) as raised:
        await result_of(client.accounts.get(name))

    assert raised.value.request_id is not None


@pytest.mark.parametrize("name", ["", ".", ".."])
async def test_a_name_that_would_leave_the_path_is_refused_here(client: Any, name: str) -> None:
    """A name that would change the path of the URL raises ValueError."""
    with pytest.raises(ValueError, match="not an identifier"):
        await result_of(client.accounts.get(name))


async def test_a_wrong_key_is_refused_at_once(live: SeededServer, client_kind: ClientKind) -> None:
    """A key that the server does not know raises Unauthorized, without retries."""
    async with client_of(client_kind, "sk_live_wrong", live.base_url) as client:
        with pytest.raises(Unauthorized) as raised:
            await result_of(client.me())

    assert raised.value.attempts == 1


async def test_a_server_that_is_not_there_is_a_failed_connection(client_kind: ClientKind) -> None:
    """After the last attempt the client raises ConnectionFailed, which is not in doubt."""
    async with client_of(
        client_kind, "sk_live_any", f"http://127.0.0.1:{free_port()}/v1"
    ) as client:
        with pytest.raises(ConnectionFailed) as raised:
            await result_of(client.transfers.send(to="@ada", amount=1))

    assert raised.value.attempts == 8
    assert raised.value.in_doubt is False
    assert raised.value.idempotency_key


async def test_a_text_that_is_too_long_for_an_address_is_refused(client_kind: ClientKind) -> None:
    """It may come from a form: programs catch the exceptions that the documentation names."""
    async with client_of(client_kind, "sk_live_any", "http://pay.example/v1") as client:
        with pytest.raises(ValueError, match="too long"):
            await result_of(client.accounts.get("a" * 70_000))


@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_an_address_has_no_password(kind: type[Client]) -> None:
    """It would replace the key, and be shown to visitors in the address of the consent page."""
    with pytest.raises(ValueError, match="must not contain") as refused:
        kind("sk_live_any", base_url="https://stage:geheim@pay.example.com/v1")
    assert "geheim" not in str(refused.value)


@pytest.mark.parametrize(
    "base_url",
    [
        *["", "pay.example.com/v1", "ftp://pay.example.com", "http://"],
        *["http://localhost:$PORT/v1", "https://pay.example.com/v1\n"],
    ],
)
@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_an_address_has_a_scheme_and_a_host(kind: type[Client], base_url: str) -> None:
    """A wrong address is refused when the client is created."""
    with pytest.raises(ValueError, match="not an address"):
        kind("sk_live_any", base_url=base_url)


@pytest.mark.parametrize("kind", [Client, AsyncClient, UserClient, AsyncUserClient])
def test_an_address_with_a_query_and_a_limit_without_time_are_refused(kind: Any) -> None:
    """Requests would go to another address, or fail before they are sent."""
    for base_url in ("https://pay.example/v1?y=1", "https://pay.example/v1#y", "https://a/v1?"):
        with pytest.raises(ValueError, match="query or a fragment"):
            kind("sk_live_any", base_url=base_url)
    for seconds in (0, -1, math.nan, math.inf, 86_401):
        with pytest.raises(ValueError, match="positive, and at most a day"):
            kind("sk_live_any", base_url="https://pay.example/v1", timeout_seconds=seconds)
