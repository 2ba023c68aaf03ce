"""The served OpenAPI document matches the server: a fuzzer tries thousands of cases.

Every check of Schemathesis is on: no 5xx, no status, header, content type or record that is not
documented, nothing refused that fits the schema and nothing taken that does not, no operation
open without its credential.
"""

import asyncio
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ousel.api.paging import cursor_at
from ousel.database.addresses import open_database
from ousel.kernel.clock import system_clock
from ousel.kernel.ids import new_id
from tests.faults.sizes import FULL, sized
from tests.oauth.consents import Consent
from tests.support.accounts import partner, verify
from tests.support.engines import ENGINES, Engine, Engines
from tests.support.server import Server

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
COMMAND = [str(Path(sys.executable).parent / "st"), "--config-file=tests/api/conformance.toml"]
RUN_SECONDS_MAX = 500
EXAMPLES = sized(5, 150)  # for each operation, besides those that the fuzzer derives itself
SUMMARY = r"Selected: (?P<selected>\d+)/\d+\s+Tested: (?P<tested>\d+).*\s(?P<cases>\d+) generated"


@pytest.mark.parametrize("engine", ENGINES if FULL else ENGINES[-1:])  # PostgreSQL refuses more
def test_every_operation_answers_as_documented(
    engines: Engines, engine: Engine, tmp_path: Path
) -> None:
    """On a live server, with a partner's key and a user's token; and the books still balance."""
    url = engines.fresh_url(engine, tmp_path)

    with Server(url, OUSEL_LOG_LEVEL="error") as server:
        environment = asyncio.run(_furnished(server, url, "live"))
        _conforms(server, environment)
        log = server.stop()

    assert "internal error" not in log, log
    asyncio.run(_proven(url))


def test_the_sandbox_answers_as_documented(engines: Engines, tmp_path: Path) -> None:
    """The endpoints that a sandbox alone has, with which the fuzzer moves time and issues money."""
    url = engines.fresh_url("sqlite", tmp_path)

    with Server(url, "--sandbox", OUSEL_LOG_LEVEL="error") as server:
        environment = asyncio.run(_furnished(server, url, "test"))
        _conforms(server, environment, "--include-path-regex=^/sandbox/")
        log = server.stop()

    assert "internal error" not in log, log
    asyncio.run(_proven(url))


def _conforms(server: Server, environment: dict[str, str], *options: str) -> None:
    """Check that the fuzzer tried every operation often enough and found nothing."""
    document = f"{server.base_url}/openapi.json"
    examples = f"--max-examples={EXAMPLES}"
    done = subprocess.run(
        [*COMMAND, "run", document, "--checks=all", examples, "--no-color", *options],
        cwd=ROOT,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS_MAX,
        check=False,
    )
    summary = re.search(SUMMARY, done.stdout, re.DOTALL)

    assert done.returncode == 0, done.stdout + done.stderr
    assert summary is not None, done.stdout
    assert summary["tested"] == summary["selected"] != "0"
    assert int(summary["cases"]) >= EXAMPLES * int(summary["tested"]), done.stdout


async def _furnished(server: Server, url: str, kind: str) -> dict[str, str]:
    """Bring in what the fuzzer calls with: a funded partner's key, a user's token, two cursors."""
    async with open_database(url) as database:
        _, _, key = await partner(database, "harbour", "999999999", kind)
        await partner(database, "ada", "999999999", kind)
        consent = await Consent.of_new_people(database, kind=kind)
        async with server.client() as client:
            token = await consent.token(client)
    async with server.client(key) as client:
        for amount in (1, 2):
            await client.post("/transfers", json={"to": "@ada", "amount": amount})
            await client.post("/charges", json={"amount": amount})
        transfers = (await client.get("/transfers?limit=1")).json()
        charges = (await client.get("/charges?limit=1")).json()
    return {
        "PARTNER_KEY": key,
        "USER_TOKEN": token,
        "TRANSFERS_CURSOR": transfers["next_cursor"],
        "CHARGES_CURSOR": charges["next_cursor"],
        "MAIL_CURSOR": cursor_at(new_id("mail_", system_clock)),
    }


async def _proven(url: str) -> None:
    async with open_database(url) as database:
        await verify(database)
