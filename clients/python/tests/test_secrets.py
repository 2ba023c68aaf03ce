"""No log, repr or traceback shows a key or a token."""

import logging
import traceback
from typing import Any

import httpx2
import pytest

from clients.python.tests.client_kinds import client_of, result_of
from ousel_client import AsyncClient, Client, OuselError, RetryPolicy, UserClient, UserToken
from ousel_client.credentials import Secret
from tests.support.seeded import REDIRECT_URI, SeededServer

KEY = "sk_live_do-not-show-this"


def refusing(_: httpx2.Request) -> httpx2.Response:
    """Answer 503 to every request."""
    return httpx2.Response(503, json={"code": "queue_full", "detail": "Full."})


def test_nothing_that_is_logged_or_raised_has_the_key(caplog: pytest.LogCaptureFixture) -> None:
    """With all loggers at DEBUG, no log, exception or repr shows the key when calls fail."""
    caplog.set_level(logging.DEBUG)
    policy = RetryPolicy(attempts_max=2, first_delay_seconds=0)
    transport = httpx2.MockTransport(refusing)
    shown: list[str] = []
    with Client(KEY, base_url="http://pay.example/v1", retry=policy, transport=transport) as client:
        for call in (
            client.me,
            lambda: client.transfers.send(to="@ada", amount=1),
            lambda: client.revoke("ut_live_secret", client_id="app_1"),
            lambda: client.exchange_code("ac_1", client_id="app_1", redirect_uri=REDIRECT_URI),
        ):
            with pytest.raises(OuselError) as raised:
                call()
            shown += [repr(raised.value), *traceback.format_exception(raised.value)]
        shown += [repr(each) for each in (client, vars(client), vars(client.transfers))]

    assert any("ousel_client" in record.name for record in caplog.records)
    assert KEY not in caplog.text
    assert not any(KEY in each for each in shown)


async def test_the_http_library_does_not_log_the_key(
    live: SeededServer, caplog: pytest.LogCaptureFixture
) -> None:
    """With all loggers at DEBUG, the HTTP library does not log the key either."""
    caplog.set_level(logging.DEBUG)
    async with client_of("asyncio", live.key, live.base_url) as client:
        await result_of(client.transfers.send(to="@ada", amount=1))

    assert "/v1/transfers" in caplog.text
    assert live.key not in caplog.text


def test_a_secret_has_no_repr() -> None:
    """The repr of a secret or a token does not show its text."""
    token = UserToken(
        access_token=KEY, token_type="Bearer", expires_in=1, scope="profile", user_id="acct_1"
    )

    assert KEY not in repr(Secret(KEY)) + str(Secret(KEY)) + repr(token)


@pytest.mark.parametrize("wrong", ["", f"{KEY}\n", f" {KEY}", f"{KEY}\u00e9", f"{KEY}\r\nX: y"])
@pytest.mark.parametrize("kind", [Client, AsyncClient, UserClient])
def test_a_key_that_no_header_can_carry_is_refused_unseen(kind: Any, wrong: str) -> None:
    """A key that is not valid in a header is refused at once, by an error that does not show it."""
    with pytest.raises(ValueError, match="visible ASCII") as raised:
        kind(wrong, base_url="http://pay.example/v1")

    assert KEY not in str(raised.value)
