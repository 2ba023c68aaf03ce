"""`ousel account recover`: a link for people who have lost their email or their second factor."""

import asyncio
import os
import re
import signal
import subprocess

import httpx2
import pytest

from ousel.database.addresses import open_database
from ousel.kernel.clock import system_clock
from ousel.kernel.settings import Settings
from ousel.mail.outbox import Outbox
from ousel.mail.rules import Mail
from tests.cli.commands import OUSEL, PROCESS_SECONDS_MAX, Operator, assert_fails, ousel

MAIL = {"OUSEL_MAIL_URL": "smtp://127.0.0.1:1", "OUSEL_MAIL_FROM": "pay@ousel.test"}
SUBJECT = "The operator has issued a link that resets your Ousel password"

pytestmark = pytest.mark.one_engine


def link_page(operator: Operator, link: str) -> httpx2.Response:
    """Open a link on the running server, whose port the command does not know."""
    path = link[link.index("/reset") :]
    return httpx2.get(f"{operator.server.origin}{path}", verify=False)


def test_a_link_is_printed_after_confirmation(operator: Operator) -> None:
    """The question says whose account it is; a new link replaces the one before."""
    username = operator.open_account()
    asked = operator.run("account", "recover", f"@{username}", stdin=b"y\n")
    assert f"takes over @{username} (Ada)" in asked.errors
    assert asked.rows["username"] == username
    first = asked.rows["link"]
    assert re.fullmatch(r"http://127\.0\.0\.1:8000/reset\?token=rl_[0-9a-v]{40}", first)
    page = link_page(operator, first)
    assert page.status_code == 200
    assert f"@{username}" in page.text

    again = operator.run("account", "recover", f"@{username}", "--yes", "--json").json

    assert list(again) == ["username", "display_name", "link"]
    assert link_page(operator, first).status_code == 400
    assert link_page(operator, again["link"]).status_code == 200


@pytest.mark.parametrize("answer", [b"n\n", b"\n", b""])
def test_without_confirmation_there_is_no_link(operator: Operator, answer: bytes) -> None:
    """Anything but y ends the command, and so does a missing answer."""
    username = operator.open_account()
    refused = operator.run("account", "recover", f"@{username}", stdin=answer)
    assert (refused.exit_code, refused.output) == (1, "")
    assert refused.errors.endswith("[y/N]\nousel: no link was issued: answer y, or use --yes\n")


@pytest.mark.slow
@pytest.mark.usefixtures("usual_signals")
def test_ctrl_c_at_the_question_ends_the_command(operator: Operator) -> None:
    """At once: nobody has to press it twice, and no link is issued."""
    command = [str(OUSEL), "account", "recover", f"@{operator.open_account()}"]
    environment = os.environ | {"OUSEL_DATABASE_URL": operator.url}
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, env=environment, stdin=pipe, stdout=pipe, stderr=pipe
    ) as process:
        assert process.stderr is not None
        assert process.stdout is not None
        try:
            assert process.stderr.readline().endswith(b"[y/N]\n")
            process.send_signal(signal.SIGINT)
            exit_code = process.wait(timeout=PROCESS_SECONDS_MAX)
        finally:
            process.kill()

        assert (exit_code, process.stdout.read(), process.stderr.read()) == (130, b"", b"")


def test_an_unknown_account_is_refused_at_once(operator: Operator) -> None:
    """Nobody is asked to confirm."""
    assert_fails(operator.run("account", "recover", "@nobody_at_all"), "No account has this")


def test_the_link_leads_to_the_portal_and_the_holder_gets_a_message(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command needs the settings of the servers; without mail, nothing is written."""
    monkeypatch.setenv("OUSEL_PORTAL_URL", "https://pay.example")
    options = ("--username=ada", "--email=ada@example.com", "--name=Ada")
    assert ousel("account", "create", *options, database=database_url).exit_code == 0
    for mails, variables in enumerate(({}, MAIL)):
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        arguments = ("account", "recover", "@ada", "--yes", "--json")
        recovered = ousel(*arguments, database=database_url).json
        assert recovered["link"].startswith("https://pay.example/reset?token=")
        mail = asyncio.run(mail_to(database_url, "ada@example.com"))
        assert [each.subject for each in mail] == [SUBJECT] * mails
        assert not any(recovered["link"] in each.text for each in mail)


async def mail_to(database_url: str, email: str) -> list[Mail]:
    """Return the messages to an address that wait to be sent."""
    async with open_database(database_url) as database:
        return await Outbox(database, system_clock, Settings()).newest(email)
