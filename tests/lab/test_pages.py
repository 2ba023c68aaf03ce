"""The page of the lab: its owner starts a rehearsal, ends it and reads the grade."""

from collections.abc import AsyncIterator

import pytest

from tests.support.passwords import hash_quickly
from tests.support.portal import Portal, open_portal
from tests.support.raw_sql import RawSql
from tests.support.visitor import Visitor

START, FINISH = "Start rehearsal", "Finish rehearsal"
IDEMPOTENCY_KEY = "order-of-a-customer"


@pytest.fixture
async def sandbox(database_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Portal]:
    """A sandbox inside the test's process."""
    hash_quickly(monkeypatch)
    async with open_portal(database_url, sandbox=True) as opened:
        yield opened


@pytest.fixture
async def owner(sandbox: Portal) -> tuple[Visitor, str, str]:
    """Someone with an app, the app's path, and a key."""
    visitor = await sandbox.person("ada")
    app = await visitor.create_app("Shop")
    return visitor, app, await visitor.issue_key(app)


async def test_a_rehearsal_is_started_and_graded(
    sandbox: Portal, owner: tuple[Visitor, str, str], database_url: str
) -> None:
    """The page shows each call and each broken rule; neither it nor the database has a secret."""
    visitor, app, key = owner
    lab = f"{app}/lab"
    assert f'href="{lab}"' in (await visitor.get(app)).text

    await visitor.press(lab, START, rehearsal="answer-lost-before-commit")
    running = (await visitor.get(lab)).text
    client = sandbox.visitor().client
    for amount in (1, 2):
        with pytest.raises(Exception, match="closed"):
            await client.post(
                "/v1/transfers",
                json={"to": "@secret_friend", "amount": amount},
                headers={"Authorization": f"Bearer {key}", "Idempotency-Key": IDEMPOTENCY_KEY},
            )
    ended = await visitor.press(lab, FINISH)
    page = (await visitor.get(ended.headers["location"])).text

    assert "No calls yet" in running
    assert page.count("lost before anything was written") == 2
    assert "The same key was sent with another request." in page
    assert FINISH not in page
    async with RawSql(database_url) as raw_sql:
        stored = str(await raw_sql.run("SELECT call FROM rehearsal_calls"))
    for secret in (key, IDEMPOTENCY_KEY, "secret_friend"):
        assert secret not in stored
        assert secret not in page


async def test_only_the_owner_sees_the_lab(
    sandbox: Portal, owner: tuple[Visitor, str, str]
) -> None:
    """Others cannot tell the app from one that does not exist; strangers are asked to sign in."""
    visitor, app, _ = owner
    await visitor.press(f"{app}/lab", START, rehearsal="unavailable")
    other = await sandbox.person("grace")
    own = await other.create_app("Own")

    form = await other.form(f"{own}/lab", START)
    refused = await other.post(f"{app}/lab", form.pressed(START, {"rehearsal": "slow"}))
    signed_out = await sandbox.visitor().get(f"{app}/lab")

    assert (await other.get(f"{app}/lab")).status_code == refused.status_code == 404
    assert signed_out.headers["location"].startswith("/login")


async def test_what_cannot_be_rehearsed_is_refused_on_the_page(
    owner: tuple[Visitor, str, str],
) -> None:
    """An unknown rehearsal, and a forged return without a redirect URI to return to."""
    visitor, app, _ = owner

    unknown = await visitor.press(f"{app}/lab", START, rehearsal="earthquake")
    homeless = await visitor.press(f"{app}/lab", START, rehearsal="forged-return")

    assert (unknown.status_code, homeless.status_code) == (400, 400)
    assert "Choose a rehearsal." in unknown.text
    assert "Register a redirect URI for the app first." in homeless.text


async def test_a_rehearsal_ends_by_itself_or_when_the_next_one_starts(
    sandbox: Portal, owner: tuple[Visitor, str, str]
) -> None:
    """Calls are disturbed only while a rehearsal runs; earlier ones stay readable."""
    visitor, app, key = owner
    await visitor.press(f"{app}/lab", START, rehearsal="key-revoked")
    sandbox.clock.advance(seconds=1)
    await visitor.press(f"{app}/lab", START, rehearsal="slow")
    calls = [(await sandbox.call("/me", key)).status_code for _ in range(2)]
    page = (await visitor.get(f"{app}/lab")).text
    sandbox.clock.advance(seconds=15 * 60)
    ended = (await visitor.get(f"{app}/lab")).text

    assert calls == [200, 200]
    assert page.count("?rehearsal=reh_") >= 2
    assert (FINISH in page, FINISH in ended) == (True, False)


@pytest.mark.one_engine
async def test_a_live_server_has_no_lab(portal: Portal) -> None:
    """Neither the page nor a link to it."""
    visitor = await portal.person("ada")
    app = await visitor.create_app("Shop")

    assert f"{app}/lab" not in (await visitor.get(app)).text
    assert (await visitor.get(f"{app}/lab")).status_code == 404
