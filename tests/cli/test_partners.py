"""`ousel app` and `ousel key`, while a server runs: each holds for the server's next request."""

import asyncio
import re
from datetime import datetime, timedelta
from typing import Any

import httpx2
import pytest

from ousel.database.addresses import database_at
from ousel.kernel.ids import handle_of, secret_hash
from ousel.people.account_settings import AFTER_ALL_EVENTS
from ousel.people.store import events_before
from tests.cli.commands import Operator, assert_fails
from tests.support.accounts import unique_name
from tests.support.raw_sql import RawSql
from tests.support.waiting import wait_until

pytestmark = pytest.mark.one_engine

KEY_FIELDS = ["handle", "name", "client_id", "created_at", "ends_at", "last_used_at"]


def test_an_app_is_created_with_a_key_that_works_at_once(operator: Operator) -> None:
    """`--json` gives `client_id`, `name` and `key`; plain, the same."""
    ada = operator.open_account("3")

    app = operator.run("app", "create", f"--owner=@{ada}", "--name=Ada's [shop]", "--json").json
    plain = operator.run("app", "create", f"--owner={ada}@example.com", "--name=Second").rows

    assert list(app) == ["client_id", "name", "owner", "key"]
    assert re.fullmatch(r"app_[0-9a-v]{26}", app["client_id"])
    assert app["name"] == "Ada's [shop]"
    assert re.fullmatch(r"sk_live_[0-9a-v]{40}", app["key"])
    assert operator.get("/me", app["key"]).json()["app"] == {
        "client_id": app["client_id"],
        "name": app["name"],
    }
    assert list(plain) == list(app)
    assert operator.get("/me", plain["key"]).json()["app"]["name"] == "Second"


def test_an_app_is_created_with_origins(operator: Operator) -> None:
    """An origin that stands on the command line may call from then on, and no other."""
    ada, host = operator.open_account(), unique_name("shop").replace("_", "-")
    origins = [f"--origin=https://{name}.{host}.example" for name in ("one", "two")]
    redirects = [f"--redirect-uri=https://{host}.example/{path}" for path in ("back", "again")]

    app = operator.run(
        "app", "create", f"--owner=@{ada}", "--name=Shop", *origins, *redirects, "--json"
    ).json

    for name, status in (("one", 200), ("two", 200), ("three", 403)):
        headers = {
            "Authorization": f"Bearer {app['key']}",
            "Origin": f"https://{name}.{host}.example",
        }
        answer = httpx2.get(f"{operator.server.base_url}/me", headers=headers, verify=False)
        assert answer.status_code == status


def test_a_key_is_issued_listed_and_revoked(operator: Operator) -> None:
    """A revoked key is refused on the next request; the list tells when it was revoked."""
    client_id, first = _app(operator)

    issued = operator.run("key", "issue", client_id, "--name=nightly job", "--json").json
    assert operator.get("/me", issued["key"]).status_code == 200
    revoked = operator.run("key", "revoke", issued["handle"], "--json").json
    after = operator.get("/me", issued["key"])
    listed = operator.run("key", "list", client_id, "--json").json
    plain = operator.run("key", "list", client_id).output.splitlines()

    assert list(issued) == [*KEY_FIELDS, "key"]
    assert issued["name"] == "nightly job"
    assert issued["ends_at"] is None
    assert issued["key"].startswith(issued["handle"])
    assert list(revoked) == KEY_FIELDS
    lifetime = datetime.fromisoformat(revoked["ends_at"]) - datetime.fromisoformat(
        issued["created_at"]
    )
    assert timedelta(0) < lifetime < timedelta(hours=1)
    assert after.status_code == 401
    assert operator.get("/me", first).status_code == 200
    assert [list(record) for record in listed] == [KEY_FIELDS, KEY_FIELDS]
    assert [record["name"] for record in listed] == ["first key", "nightly job"]
    assert listed[1]["ends_at"] == revoked["ends_at"]
    assert first not in "".join(plain)
    assert plain[0].split() == KEY_FIELDS
    assert len(plain) == 3


def test_a_rotated_key_stays_valid_for_24_hours_by_default(operator: Operator) -> None:
    """Both keys work meanwhile, and the list tells when the old one ends."""
    client_id, first = _app(operator)
    handle = first[: len("sk_live_") + 8]

    rotated = operator.run("key", "rotate", handle, "--json").json
    old, new = operator.run("key", "list", client_id, "--json").json

    assert operator.get("/me", first).status_code == 200
    assert operator.get("/me", rotated["key"]).status_code == 200
    assert new["handle"] == rotated["handle"]
    assert new["name"] == old["name"]
    lifetime = datetime.fromisoformat(old["ends_at"]) - datetime.fromisoformat(new["created_at"])
    assert abs(lifetime - timedelta(hours=24)) < timedelta(minutes=5)


def test_an_overlap_of_zero_ends_the_old_key_at_once(operator: Operator) -> None:
    """The next request with the old key is refused."""
    _, first = _app(operator)
    assert operator.get("/me", first).status_code == 200

    rotated = operator.run("key", "rotate", first[: len("sk_live_") + 8], "--overlap-hours=0").rows

    assert operator.get("/me", first).status_code == 401
    assert operator.get("/me", rotated["key"]).status_code == 200


def test_a_key_that_was_rotated_or_revoked_is_not_rotated_again(operator: Operator) -> None:
    """So a command that is run twice, or after a revocation, leaves no key that nobody knows."""
    client_id, first = _app(operator)
    renewed = operator.run("key", "rotate", first, "--json").json["key"]
    operator.run("key", "revoke", renewed)
    for key in (first, renewed):
        assert_fails(operator.run("key", "rotate", key), "already been rotated or revoked")
    assert len(operator.run("key", "list", client_id, "--json").json) == 2


def test_an_invalid_overlap_is_refused(operator: Operator) -> None:
    """Negative, more than 30 days, or not a number: nothing is rotated."""
    client_id, first = _app(operator)
    handle = first[: len("sk_live_") + 8]

    for hours in ("-1", "721", "nan", "inf", "1e300", "1e306"):
        assert_fails(
            operator.run("key", "rotate", handle, f"--overlap-hours={hours}"), "overlap must be"
        )

    assert len(operator.run("key", "list", client_id, "--json").json) == 1


def test_a_command_accepts_the_whole_key(operator: Operator) -> None:
    """Rotated or revoked, it is the one that was given, and no error repeats it."""
    _, first = _app(operator)
    forged = first[:-1] + ("1" if first[-1] == "0" else "0")

    renewed = operator.run("key", "rotate", first, "--overlap-hours=0", "--json").json["key"]
    assert_fails(
        operator.run("key", "revoke", forged),
        f"A key has the handle {forged[:16]}, but the rest of the given key does not match",
    )
    unknown = operator.run("key", "revoke", "sk_live_" + "0" * 40)
    assert_fails(unknown, "No key has the handle sk_live_00000000.")
    revoked = operator.run("key", "revoke", renewed, "--json").json

    assert "0" * 9 not in unknown.errors
    assert operator.get("/me", first).status_code == 401
    assert operator.get("/me", renewed).status_code == 401
    assert revoked["handle"] == renewed[:16]


def test_a_handle_that_two_keys_share_is_refused(operator: Operator) -> None:
    """One line tells so, and nothing ends; the whole key tells them apart."""
    (_, first), (client_id, other) = _app(operator), _app(operator)
    twin = first[:16] + other[16:]
    asyncio.run(_made(operator.url, other, twin))

    for command in ("rotate", "revoke"):
        assert_fails(operator.run("key", command, first[:16]), "give the whole key")
    assert operator.get("/me", twin).status_code == 200
    assert operator.run("key", "revoke", twin).exit_code == 0

    assert operator.get("/me", twin).status_code == 401
    assert operator.get("/me", first).status_code == 200
    (ended,) = operator.run("key", "list", client_id, "--json").json
    assert ended["ends_at"] is not None


def test_the_operator_s_actions_appear_in_the_account_history(operator: Operator) -> None:
    """Each thing once, as the operator's own; a key that was over is not revoked again."""
    client_id, first = _app(operator)
    issued = operator.run("key", "issue", client_id, "--name=till", "--json").json["key"]
    second = operator.run("key", "rotate", first, "--json").json["key"]
    for _ in range(2):
        assert operator.run("key", "revoke", issued).exit_code == 0

    owner = operator.get("/me", second).json()["id"]
    handles = [f"({handle_of(key)}…)" for key in (first, issued, second)]
    assert sorted(asyncio.run(_history(operator.url, owner))) == [
        ("app_created", "Shop", "Operator", ""),
        ("key_issued", f"“first key” {handles[0]}", "Operator", ""),
        ("key_issued", f"“till” {handles[1]}", "Operator", ""),
        ("key_revoked", f"“till” {handles[1]}", "Operator", ""),
        ("key_rotated", f"“first key” {handles[0]} → “first key” {handles[2]}", "Operator", ""),
    ]


@pytest.mark.slow
def test_the_list_shows_the_last_use_of_a_key(operator: Operator) -> None:
    """A server writes it down every few seconds, while it runs."""
    client_id, key = _app(operator)
    (unused,) = operator.run("key", "list", client_id, "--json").json
    assert unused["last_used_at"] is None

    assert operator.get("/me", key).status_code == 200

    def listed() -> Any:
        return operator.run("key", "list", client_id, "--json").json[0]

    wait_until(lambda: listed()["last_used_at"] is not None, 20)
    used = listed()

    assert used["last_used_at"] > used["created_at"]


async def _made(url: str, key: str, other: str) -> None:
    """Let one key be another."""
    async with RawSql(url) as raw_sql:
        await raw_sql.run(
            "UPDATE partner_keys SET handle = ?, hash = ? WHERE handle = ?",
            *(handle_of(other), secret_hash(other), handle_of(key)),
        )


def _app(operator: Operator) -> tuple[str, str]:
    """Create an app; return its client id and key."""
    ada = operator.open_account()
    app = operator.run("app", "create", f"--owner=@{ada}", "--name=Shop", "--json").json
    return app["client_id"], app["key"]


async def _history(url: str, account_id: str) -> list[tuple[str, ...]]:
    """Return what happened to an account, but for the moments."""
    database = database_at(url)
    await database.open()
    try:
        events = await database.read(
            lambda transaction: events_before(transaction, account_id, AFTER_ALL_EVENTS, 100)
        )
    finally:
        await database.close()
    return [(each.kind, each.detail, each.device, each.ip_address) for each in events]
