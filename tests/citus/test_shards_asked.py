"""How many shards each request asks: one for what belongs to one account, never all of them."""

import re
from collections.abc import AsyncIterator, Awaitable, Collection
from pathlib import Path

import httpx2
import pytest

from ousel.app.background_tasks import BackgroundTasks
from ousel.database.citus import DISTRIBUTION_COLUMNS
from tests.oauth.consents import Consent, bearer
from tests.support.citus_cluster import SHARDS, CitusCluster
from tests.support.portal import open_portal
from tests.support.raw_sql import RawSql
from tests.support.seeded import SeededDatabase
from tests.support.server import Server
from tests.support.visitor import PASSWORD

pytestmark = pytest.mark.slow

# The log of the coordinator shows each statement that it sends to a shard of a table.
LOG_STATEMENTS = (
    "ALTER DATABASE {name} SET citus.log_remote_commands = on",
    "ALTER DATABASE {name} SET log_min_messages = notice",
    "ALTER DATABASE {name} SET client_min_messages = warning",
)
STATEMENT = re.compile(r"issuing (?:SELECT|INSERT|UPDATE|DELETE|WITH)(.*)")
SHARD = re.compile(r"public\.(\w+?)_(\d{6,})\b")
# Background tasks write to other tables. Of the tables below, only the sealer reads some, for no
# request.
TABLES = {"accounts", "entries", "charges", "identifiers", "holders"}
SEALER = re.compile(r"sum\(sequence\)|debit_sequence|credit_sequence", re.IGNORECASE)


class ShardLog:
    """The shards that the coordinator has asked since the last look."""

    def __init__(self, log: Path, tables: Collection[str]) -> None:
        self._log = log
        self._tables = tables
        self._seen = log.stat().st_size

    def shards(self) -> dict[str, int]:
        """Return how many shards of each table were asked."""
        with self._log.open() as file:
            file.seek(self._seen)
            text = file.read()
        self._seen += len(text.encode())
        found = {
            shard
            for statement in STATEMENT.findall(text)
            if SEALER.search(statement) is None
            for shard in SHARD.findall(statement)
        }
        tables = [name for name, _ in found]
        return {name: tables.count(name) for name in set(tables) if name in self._tables}


@pytest.fixture
async def partner(
    seeded: SeededDatabase, cluster: CitusCluster
) -> AsyncIterator[tuple[httpx2.AsyncClient, ShardLog]]:
    """A client of a server whose statements are logged, and the log."""
    await _log_statements(seeded)
    with Server(seeded.url) as server:
        async with server.client(seeded.key) as client:
            await client.get("/balance")  # opens the connections
            yield client, ShardLog(cluster.coordinator.log, TABLES)


async def test_each_request_asks_the_shards_of_its_accounts(
    partner: tuple[httpx2.AsyncClient, ShardLog],
) -> None:
    """Reads and polls ask one shard of a table, transfers those of two accounts."""
    client, shard_log = partner
    body = {"to": "@ada", "amount": 1}
    steps = {
        "transfer": await _asked(shard_log, client.post("/transfers", json=body)),
        "transfer, recipient cached": await _asked(shard_log, client.post("/transfers", json=body)),
        "balance": await _asked(shard_log, client.get("/balance")),
        "me": await _asked(shard_log, client.get("/me")),
        "account": await _asked(shard_log, client.get("/accounts/@ada")),
        "transfers": await _asked(shard_log, client.get("/transfers?limit=1")),
    }
    transfer = (await client.get("/transfers?limit=1")).json()["data"][0]["id"]
    charge = (await client.post("/charges", json={"amount": 1})).json()["id"]
    shard_log.shards()
    steps |= {
        "one transfer": await _asked(shard_log, client.get(f"/transfers/{transfer}")),
        "new charge": await _asked(shard_log, client.post("/charges", json={"amount": 1})),
        "charge": await _asked(shard_log, client.get(f"/charges/{charge}")),
        "charges": await _asked(shard_log, client.get("/charges")),
        "canceled charge": await _asked(shard_log, client.post(f"/charges/{charge}/cancel")),
    }

    print(steps)
    with_another_account = {"transfer", "transfer, recipient cached", "transfers", "one transfer"}
    for step, shards in steps.items():
        most = 2 if step in with_another_account else 1
        assert max(shards.values(), default=0) <= most < SHARDS, (step, shards)
    assert "identifiers" not in steps["transfer, recipient cached"]
    assert steps["balance"] == {"accounts": 1}
    assert set(steps["charge"]) == {"charges"}


async def test_each_page_asks_the_shards_of_its_person(
    seeded: SeededDatabase, cluster: CitusCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So do the requests of apps for user tokens, and with them; only signing in asks more."""
    monkeypatch.setattr(BackgroundTasks, "_schedule", lambda _: [])  # they ask all shards
    await _log_statements(seeded)
    async with open_portal(seeded.url) as portal:
        await portal.person("mary")
        visitor, client = portal.visitor(), portal.visitor().client
        form = await visitor.form("/login", "Sign in")
        fields = form.fields | {"identifier": "mary", "password": PASSWORD}
        consent = await Consent.of_new_people(portal.database)
        codes = [consent.exchange(await consent.code(portal.clock)) for _ in range(2)]
        granted = (await client.post("/v1/oauth/token", json=codes[0])).json()
        user = bearer(granted["access_token"])
        created = await client.post("/v1/charges", json={"amount": 1}, headers=bearer(seeded.key))
        checkout = f"/pay/{created.json()['id']}"
        shard_log = ShardLog(cluster.coordinator.log, DISTRIBUTION_COLUMNS)
        signing_in = await _asked(shard_log, visitor.send(form, fields))
        steps = {
            "home": await _asked(shard_log, visitor.get("/")),
            "activity": await _asked(shard_log, visitor.get("/activity")),
            "checkout": await _asked(shard_log, visitor.get(checkout)),
            "checkout, signed out": await _asked(shard_log, client.get(checkout)),
            "token": await _asked(shard_log, client.post("/v1/oauth/token", json=codes[1])),
            "profile": await _asked(shard_log, client.get("/v1/user/me", headers=user)),
            "balance": await _asked(shard_log, client.get("/v1/user/balance", headers=user)),
        }

    print(signing_in, steps)
    for step, shards in steps.items():
        most = {"accounts": 2} if step == "checkout" else {}
        assert shards, step
        assert all(count <= most.get(name, 1) for name, count in shards.items()), (step, shards)
    assert signing_in.pop("sessions") == SHARDS  # deletes those of the person that have expired
    signing_in.pop("sign_in_failures")  # it counts for several subjects
    assert max(signing_in.values()) == 1, signing_in


async def _log_statements(seeded: SeededDatabase) -> None:
    async with RawSql(seeded.url) as raw_sql:
        for statement in LOG_STATEMENTS:
            await raw_sql.run(statement.format(name=seeded.url.rpartition("/")[2]))


async def _asked(shard_log: ShardLog, request: Awaitable[httpx2.Response]) -> dict[str, int]:
    answer = await request
    assert answer.status_code < 400, answer.text
    return shard_log.shards()
