"""Every block of shell in the documents that can run as it stands is run, and works."""

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.oauth.consents import Consent
from tests.support.books import opened, person
from tests.support.engines import Engines
from tests.support.programs import program
from tests.support.servers import Server

ROOT = Path(__file__).parents[2]
LEFT_OPEN = "…"  # a block with this in it has a blank for the reader to fill in
DEMO_ORIGIN = "http://127.0.0.1:8000"
# These concern the whole machine: other tests do the same in folders of their own.
OPERATING = {
    "docs/operating/install.md",
    "docs/operating/back-up.md",
    "docs/operating/prove.md",
    "docs/operating/watch.md",
}


def _blocks() -> Iterator[Any]:
    for document in sorted(ROOT.glob("docs/**/*.md")):
        name = str(document.relative_to(ROOT))
        blocks = re.findall(
            r"^ *```sh\n(.*?)^ *```", document.read_text(), re.DOTALL | re.MULTILINE
        )
        for number, block in enumerate(blocks, 1):
            if LEFT_OPEN not in block and name not in OPERATING:
                yield pytest.param(block, id=f"{name}-{number}")


BLOCKS = list(_blocks())


@pytest.fixture(scope="module")
def url(engines: Engines, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of a fresh database."""
    return engines.fresh_url("sqlite", tmp_path_factory.mktemp("blocks"))


@pytest.fixture(scope="module")
def running(url: str) -> Iterator[Server]:
    """A server on that database."""
    with Server(url) as server:
        yield server


@pytest.fixture(scope="module")
def reader(running: Server, url: str) -> dict[str, str]:
    """The variables that a reader has set by then."""
    return asyncio.run(_prepared(running, url))


async def _prepared(server: Server, url: str) -> dict[str, str]:
    async with opened(url) as database:
        consent = await Consent.of_new_people(database, funds="1000")
        await person(database, "ada")
        async with server.client() as client:
            token = await consent.token(client)
        return {"OUSEL_KEY": consent.key, "USER_TOKEN": token}


def test_there_are_blocks_to_run() -> None:
    """The documents have at least ten blocks that run as they stand."""
    assert len(BLOCKS) >= 10


@pytest.mark.parametrize("block", BLOCKS)
def test_a_block_of_shell_works(block: str, running: Server, reader: dict[str, str]) -> None:
    """Each command of the block succeeds; an answer that says no counts as a failure."""
    key = {"Authorization": f"Bearer {reader['OUSEL_KEY']}"}
    charge = httpx2.post(f"{running.base_url}/charges", json={"amount": 1}, headers=key).json()
    if "Prefer" in block:  # the reader has had it paid or canceled by then
        httpx2.post(f"{running.base_url}/charges/{charge['id']}/cancel", headers=key)
    curl = program("curl", package="curl")
    script = f'curl() {{ {curl} --fail-with-body "$@"; }}\n{block}'
    environment = {
        **os.environ,
        **reader,
        "CHARGE_ID": charge["id"],
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    ended = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script.replace(DEMO_ORIGIN, running.origin)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
