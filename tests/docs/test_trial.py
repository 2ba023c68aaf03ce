"""In a sandbox, the API reference is filled with a key of its reader's own, and makes calls."""

import re
from collections.abc import AsyncIterator
from html import unescape

import pytest

from tests.support.passwords import hash_quickly
from tests.support.portal import Portal, open_portal
from tests.support.raw_sql import RawSql
from tests.support.visitor import Visitor

FILL, RUN = "Fill in my key", "Run"
PAGE = "/docs/api/createTransfer"
DAY_SECONDS = 24 * 3600
OPERATIONS_MIN = 20
TABLES = ("partner_keys", "sessions", "audit_events", "outbox")


@pytest.fixture
async def sandbox(database_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Portal]:
    """A sandbox inside the test's process."""
    hash_quickly(monkeypatch)
    async with open_portal(database_url, sandbox=True) as opened:
        yield opened


@pytest.fixture
async def reader(sandbox: Portal) -> Visitor:
    """Someone with an app, who reads the reference."""
    visitor = await sandbox.person("grace")
    await visitor.create_app("Shop")
    return visitor


async def fill_in(reader: Visitor) -> str:
    """Fill a key in, and return the key."""
    issued = await reader.press(PAGE, FILL)
    assert (issued.status_code, issued.headers["location"]) == (303, PAGE)
    [key] = set(keys_on((await reader.get(PAGE)).text))
    return key


def keys_on(page: str) -> list[str]:
    """Return the keys on a page."""
    return re.findall(r"sk_test_[0-9a-v]{40}", page)


async def answer_of(reader: Visitor, operation: str, **fields: str) -> str:
    """Run a call on its page, and return the status and the text of its answer."""
    page = f"/docs/api/{operation}"
    filled = {name.replace("__", "."): value for name, value in fields.items()}
    form = await reader.form(page, RUN)
    done = await reader.send(form, form.pressed(RUN, filled))
    assert done.status_code == 200, done.text
    assert form.action == f"{page}#answer"
    shown = done.text.partition("<h3>Answer</h3>")[2].partition("</pre>")[0]
    return unescape(re.sub(r"<[^>]*>", "", shown)).strip()


async def test_the_examples_contain_a_key_that_works_and_is_stored_nowhere(
    sandbox: Portal, reader: Visitor, database_url: str
) -> None:
    """In all languages on every page; no cache keeps the page, and no address has the key."""
    before = (await reader.get(PAGE)).text
    key = await fill_in(reader)
    page = await reader.get(PAGE)
    listed = re.findall(r"/docs/api/(\w+)", (await reader.get("/docs/api")).text)

    python = unescape(page.text.partition("Example in Python")[2].partition("<code>")[2])
    compile(python.partition("</code>")[0], "example", "exec")
    assert f'Client("{key}", base_url="http://ousel.test/v1")' in python
    assert before.count("OUSEL_KEY") == 3
    assert keys_on(before) == []
    assert len(keys_on(page.text)) == 3
    assert "OUSEL_KEY" not in page.text
    assert page.headers["cache-control"] == "no-store"
    assert (await sandbox.call("/me", key)).json()["app"]["name"] == "Shop"
    assert len(set(listed)) > OPERATIONS_MIN
    for name in listed:
        assert set(keys_on((await reader.get(f"/docs/api/{name}")).text)) == {key}, name
    assert keys_on((await reader.get("/docs/api")).text) == []
    async with RawSql(database_url) as raw_sql:
        stored = [str(await raw_sql.run(f"SELECT * FROM {table}")) for table in TABLES]
    assert key[:16] in stored[0]
    assert not [each for each in stored if key[16:] in each]


async def test_only_the_session_that_issued_a_key_sees_it(sandbox: Portal, reader: Visitor) -> None:
    """Not the same person elsewhere, nor another, nor anyone in this browser after signing out."""
    key = await fill_in(reader)
    elsewhere = sandbox.visitor()
    await elsewhere.sign_in("grace")
    other = await sandbox.person("ada")
    await reader.press("/activity", "Sign out")
    signed_out = (await reader.get(PAGE)).text
    await reader.sign_in("grace")

    pages = [signed_out, *[(await each.get(PAGE)).text for each in (elsewhere, other, reader)]]

    assert [keys_on(page) for page in pages] == [[], [], [], []]
    assert f"/login?next={PAGE}" in signed_out
    assert "/apps/new" in pages[2]
    assert (await sandbox.call("/me", key)).status_code == 200


async def test_a_key_ends_after_a_day_or_when_it_is_revoked(
    sandbox: Portal, reader: Visitor
) -> None:
    """Then nothing is called, and the page offers another key."""
    form_of_first = (await fill_in(reader), await reader.form(PAGE, RUN))
    app = (await reader.get("/apps")).text.partition('href="/apps/app_')[2].partition('"')[0]
    await reader.press_and_confirm(f"/apps/app_{app}", "Revoke")
    key, form = form_of_first
    nothing = await reader.send(form, form.pressed(RUN, {}))
    second = await fill_in(reader)
    sandbox.clock.advance(seconds=DAY_SECONDS - 1)
    lasting = (await reader.get(PAGE)).text
    sandbox.clock.advance(seconds=1)

    assert "Nothing was called" in nothing.text
    assert second != key
    assert second in lasting
    assert FILL in (await reader.get(PAGE)).text
    assert [(await sandbox.call("/me", each)).status_code for each in (key, second)] == [401, 401]


async def test_run_makes_the_call_and_shows_the_answer(sandbox: Portal, reader: Visitor) -> None:
    """The same call again is a replay; a refusal is shown as it is; a text is not HTML."""
    await sandbox.person("ada")
    await sandbox.fund("grace", "100.00")
    key = await fill_in(reader)

    moved = await answer_of(reader, "createTransfer")
    again = await answer_of(reader, "createTransfer")
    body = '{"to": "@ada", "amount": 1000, "note": "<b>"}'
    refused = await answer_of(
        reader, "createTransfer", body=body, **{"header__Idempotency-Key": ""}
    )
    balance = await answer_of(reader, "getBalance")

    assert moved.startswith("201 Created POST http://ousel.test/v1/transfers\n")
    assert '"amount": 25.00,' in moved
    assert "no-store" not in moved
    assert again.startswith("200 OK POST http://ousel.test/v1/transfers\n")
    assert "idempotent-replayed: true" in again
    assert refused.startswith("400 Bad Request POST http://ousel.test/v1/transfers\n")
    assert '"code": "insufficient_balance"' in refused
    assert '"available": 75.00' in balance
    form = await reader.form(PAGE, RUN)
    shown = await reader.send(form, form.pressed(RUN, {"body": body}))
    assert "<b>" not in shown.text
    assert shown.headers["cache-control"] == "no-store"
    assert key in shown.text


async def test_run_passes_every_kind_of_parameter_on(sandbox: Portal, reader: Visitor) -> None:
    """In the path, in the query, in headers; and the credential that the endpoint wants."""
    await sandbox.person("ada")
    await fill_in(reader)

    assert '"username": "ada"' in await answer_of(reader, "getAccount")
    missing = await answer_of(reader, "getAccount", path__identifier="a/../b?c#d")
    assert '"code": "account_not_found"' in missing
    assert '"data": []' in await answer_of(reader, "listTransfers", query__direction="out")
    wrong = await answer_of(reader, "listTransfers", query__limit="1000")
    assert '"param": "limit"' in wrong
    held = await answer_of(reader, "listTransfers", query__order="oldest", header__Prefer="wait=0")
    assert "preference-applied: wait=0" in held
    assert '"error": "invalid_grant"' in await answer_of(reader, "createUserToken")
    assert '"code": "invalid_token"' in await answer_of(reader, "getUser", user_token="ut_test_1")
    form = await reader.form("/docs/api/getCharge", RUN)
    split = await reader.send(form, form.pressed(RUN, {"header.Prefer": "a\r\nb", "path.id": "1"}))
    assert split.status_code == 400


async def test_a_lost_answer_is_shown_as_such(reader: Visitor) -> None:
    """A rehearsal of the app disturbs the calls of the page too."""
    await fill_in(reader)
    page = re.findall(r'href="(/apps/app_\w+)"', (await reader.get("/apps")).text)[0]
    await reader.press(f"{page}/lab", "Start rehearsal", rehearsal="answer-lost-before-commit")

    answer = await answer_of(reader, "createTransfer")

    assert answer.startswith("No answer")
    assert answer.endswith("The connection was closed.")


async def test_nobody_else_issues_or_uses_a_key(sandbox: Portal, reader: Visitor) -> None:
    """Forms of other sites are refused, and so are the apps of others; strangers must sign in."""
    await fill_in(reader)
    form = await reader.form(PAGE, RUN)
    forged = await reader.post(form.action, form.fields | {"form_token": "x"})
    foreign = await reader.post(form.action, form.fields, Origin="https://evil.example")
    other = await sandbox.person("ada")
    await other.create_app("Own")
    issuing = await other.form(PAGE, FILL)
    app = re.findall(r"/apps/(app_\w+)", (await reader.get(PAGE)).text)[0]
    stolen = await other.post(issuing.action, issuing.pressed(FILL, {"client_id": app}))
    stranger = sandbox.visitor()
    login = await stranger.form("/login", "Sign in")
    token = {"form_token": login.fields["form_token"]}
    asked = [await stranger.post(path, token) for path in (PAGE, f"{PAGE}/key")]

    assert (forged.status_code, foreign.status_code, stolen.status_code) == (403, 403, 404)
    assert [each.headers["location"].partition("?")[0] for each in asked] == ["/login"] * 2
    assert (await reader.get("/docs/api/createMoney")).status_code == 404


@pytest.mark.one_engine
async def test_a_live_server_neither_shows_a_key_nor_runs_calls(portal: Portal) -> None:
    """The examples have a placeholder, there is no form, and a form sent anyway is refused."""
    visitor = await portal.person("ada")
    await visitor.create_app("Shop")
    page = (await visitor.get(PAGE)).text
    token = {"form_token": (await visitor.form("/apps/new", "Create app")).fields["form_token"]}

    assert page.count("OUSEL_KEY") == 3
    assert not [word for word in ("Try it", FILL, ">Run<", "sk_") if word in page]
    assert (await visitor.post(PAGE, token)).status_code == 405
    assert (await visitor.post(f"{PAGE}/key", token)).status_code == 404
