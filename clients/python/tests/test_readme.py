"""The README's code runs unchanged in a sandbox, from the first block to the last."""

import asyncio
import re
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx2
import pytest

from clients.python.tests.test_connect import connected
from ousel.kernel.clock import MICROS_PER_SECOND
from ousel_client import ApiError, Client, RetryPolicy, ReturnNotTrusted
from ousel_client.clients import TIMEOUT_SECONDS
from tests.support.clock import ManualClock
from tests.support.seeded import REDIRECT_URI, SeededServer

README = Path(__file__).parents[1] / "README.md"
BLOCKS = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)


@pytest.fixture
def readme(
    sandbox: SeededServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[dict[str, Any]]:
    """A namespace for the README's code. What the code leaves open is closed after the test."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OUSEL_KEY", sandbox.key)
    monkeypatch.setenv("OUSEL_BASE_URL", sandbox.base_url)
    monkeypatch.setenv("OUSEL_LOG_KEY", httpx2.get(f"{sandbox.server.origin}/log/key").text)
    module: dict[str, Any] = {"__name__": "readme"}
    yield module
    for name in ("payouts", "books", "client"):
        if name in module:
            module[name].close()


def run(blocks: list[str], readme: dict[str, Any]) -> None:
    """Run these blocks of the README, one after the other."""
    for number, block in enumerate(blocks):
        exec(compile(block, f"README.md, block {number + 1}", "exec"), readme)


def test_the_readme_does_what_it_says(
    readme: dict[str, Any], sandbox: SeededServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every block runs: money moves, an open intent is finished, and a person connects."""
    assert len(BLOCKS) == 9
    run(BLOCKS, readme)

    printed = capsys.readouterr().out
    assert " 25.00 " in printed
    assert "Ask for the recipient again." in printed
    assert printed.count("Transfer(") == 2  # of asyncio
    assert f"{sandbox.server.origin}/pay/" in printed
    assert f"proven: {readme['proof'].transfer_id} " in printed
    assert readme["receipt"].content == Path("receipt.json").read_bytes()
    payments = readme["books"].execute("SELECT amount FROM payments ORDER BY rowid").fetchall()
    assert payments[-1] == ("9.90",)
    _an_open_intent_is_finished(readme)
    _a_person_connects(readme, sandbox)


def _an_open_intent_is_finished(readme: dict[str, Any]) -> None:
    payouts = readme["payouts"]
    ((key, transfer_id),) = payouts.execute("SELECT idempotency_key, outcome FROM payouts")
    with payouts:  # as if the process had died before it stored the outcome
        payouts.execute("UPDATE payouts SET outcome = NULL")

    readme["finish_open_intents"]()

    after = payouts.execute("SELECT idempotency_key, outcome FROM payouts").fetchall()
    assert after == [(key, transfer_id)]

    readme["pay_out"]("@nobody", Decimal(1))
    readme["finish_open_intents"]()  # what was refused is not sent again
    ((refusal,),) = payouts.execute("SELECT outcome FROM payouts WHERE recipient = '@nobody'")
    assert refusal == "account_not_found"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("status", "body"),
    [
        (404, "default backend - 404"),
        (404, '{"error": "Not Found"}'),
        (404, '{"code": "not_found"}'),
        (400, ""),
        (400, '{"code": "malformed_request"}'),
    ],
)
def test_an_intent_stays_open_after_an_error_of_a_proxy_or_a_wrong_address(
    readme: dict[str, Any], status: int, body: str
) -> None:
    """The first attempt, whose outcome was not stored, may have moved the money."""
    run(BLOCKS[:2], readme)
    payouts = readme["payouts"]
    with payouts:
        payouts.execute("UPDATE payouts SET outcome = NULL")
    readme["client"].close()
    elsewhere = httpx2.MockTransport(lambda _: httpx2.Response(status, text=body))
    readme["client"] = Client(
        "sk_test_1", base_url="https://pay.example.com/v1", transport=elsewhere
    )

    with pytest.raises(ApiError):
        readme["finish_open_intents"]()

    assert payouts.execute("SELECT outcome FROM payouts").fetchall() == [(None,)]


def _a_person_connects(readme: dict[str, Any], sandbox: SeededServer) -> None:
    session: dict[str, str] = {}
    now = readme["client"].sandbox.advance_clock(0).now  # other tests may have advanced it
    micros = int(now.timestamp() * MICROS_PER_SECOND)
    connect_url = readme["start_connecting"](session)
    return_url, user = asyncio.run(connected(sandbox, connect_url, ManualClock(micros)))
    greeting = readme["finish_connecting"](session, return_url)
    assert greeting == f"{user.display_name} has 12.50 OUSD."
    with pytest.raises(ReturnNotTrusted):  # a reload does not exchange the code again
        readme["finish_connecting"](session, return_url)

    readme["start_connecting"](session)
    denied = {"error": "access_denied", "state": session["state"], "iss": sandbox.server.origin}
    answer = readme["finish_connecting"](session, f"{REDIRECT_URI}?{urlencode(denied)}")
    assert answer == "You did not connect your account."


def test_the_readme_states_the_defaults() -> None:
    """The table of settings has the same defaults as the code."""
    policy = RetryPolicy()
    text = README.read_text()

    assert f"| {TIMEOUT_SECONDS:g} |" in text
    for name in RetryPolicy.__slots__:
        assert f"`{name}` {getattr(policy, name):g}" in text
