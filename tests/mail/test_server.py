"""A whole server with a mail server beside it, which it never waits for."""

from collections.abc import Iterator
from contextlib import contextmanager

import httpx2
import pytest

from tests.mail.conftest import SENDER
from tests.support.accounts import unique_name
from tests.support.mail import MailServer, code_in, link_in
from tests.support.ports import free_port
from tests.support.server import Server
from tests.support.visitor import Visitor
from tests.support.waiting import until

pytestmark = pytest.mark.slow


@contextmanager
def serving(database_url: str, mail_server: MailServer, admin_port: int) -> Iterator[Server]:
    """Run a server that sends its mail to this one."""
    with Server(
        database_url,
        OUSEL_MAIL_URL=mail_server.url,
        OUSEL_MAIL_FROM=SENDER,
        OUSEL_ADMIN_PORT=str(admin_port),
    ) as running:
        yield running


async def test_mail_is_sent_although_the_mail_server_hangs_and_the_server_is_killed(
    database_url: str, mail_server: MailServer
) -> None:
    """People sign up meanwhile; once all is well, each message arrives and confirms its email."""
    names, admin_port = [unique_name() for _ in range(3)], free_port()
    people = []
    mail_server.mood = "hang"
    with serving(database_url, mail_server, admin_port) as server:
        for name in names:
            browser = httpx2.AsyncClient(base_url=server.origin, verify=False, timeout=60)
            people.append(Visitor(browser))
            assert (await people[-1].sign_up(name)).status_code == 303
        await until(mail_server.is_hanging.is_set)
        metrics = httpx2.get(f"http://127.0.0.1:{admin_port}/metrics", verify=False).text
        assert "ousel_mail_waiting 3.0" in metrics
        server.process.kill()

    mail_server.mood = "accept"
    with serving(database_url, mail_server, admin_port) as server:
        # The message that hung is claimed for three minutes.
        await until(lambda: len(mail_server.accepted) == len(names) - 1)
        for message in mail_server.accepted:
            name = str(message["To"]).partition("@")[0]
            person = people[names.index(name)]
            person.client.base_url = httpx2.URL(server.origin)
            body = message.get_body(("plain",))
            assert body is not None
            text = body.get_content()
            assert link_in(text) in text
            done = await person.press("/verify-email", "Confirm email", code=code_in(text))
            assert done.status_code == 303
            assert "not confirmed" not in (await person.get("/settings")).text
    assert set(mail_server.ids().values()) == {1}
    for person in people:
        await person.client.aclose()


@pytest.mark.one_engine
def test_a_server_without_mail_says_so_when_it_starts(database_url: str) -> None:
    """One line of its log names the setting and the command."""
    with Server(database_url) as running:
        log = running.stop()

    [line] = [line for line in log.splitlines() if "OUSEL_MAIL_URL" in line]
    assert "ousel account vouch" in line
