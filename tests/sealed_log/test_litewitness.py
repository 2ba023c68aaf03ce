"""A witness that others wrote, litewitness, cosigns the checkpoints of Ousel."""

import asyncio
import base64
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path

import pytest

from ousel.sealed_log.keys import LogKey, write_key
from ousel.sealed_log.merkle import consistency_proof
from ousel.sealed_log.notes import COSIGNATURE, VerifierKey, open_note
from ousel.sealed_log.remote import RemoteUnreachable, request
from ousel.sealed_log.witness_client import WitnessAddress, WitnessClient, WitnessRefused
from tests.faults.load import Load, assert_settled_exactly_once
from tests.faults.sizes import sized
from tests.sealed_log.examples import KEY, ORIGIN, LogInMemory
from tests.support import go
from tests.support.ports import free_port
from tests.support.seeded import SeededDatabase
from tests.support.server import Server
from tests.support.waiting import until_async, wait_until

MODULE = "filippo.io/torchwood"
NAME = "witness.example.com/lite"
CHECKPOINTS_COSIGNED = sized(3, 1_000)  # of a busy server

pytestmark = [pytest.mark.slow, pytest.mark.one_engine]


def installed(name: str, folder: Path) -> str:
    """Return the path of one of the module's programs; skip the test if it is not available."""
    return shutil.which(name) or str(go.install(f"{MODULE}/cmd/{name}", folder))


@contextmanager
def running(*command: str, **environment: str) -> Iterator[None]:
    """Run a program until the block ends."""
    with subprocess.Popen(
        command, env=os.environ | environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            yield
        finally:
            process.terminate()


@pytest.fixture
def litewitness(tmp_path: Path) -> Iterator[WitnessAddress]:
    """A litewitness that knows the log, with a key in an agent of its own."""
    witness, control = (installed(name, tmp_path) for name in ("litewitness", "witnessctl"))
    tools = [shutil.which(name) for name in ("ssh-agent", "ssh-add", "ssh-keygen")]
    if None in tools:
        pytest.skip("litewitness needs ssh-agent, ssh-add and ssh-keygen")
    agent, add, keygen = map(str, tools)
    key, database, agent_socket = tmp_path / "key", str(tmp_path / "db"), str(tmp_path / "agent")
    subprocess.run([keygen, "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    for command in (["add-log"], ["add-key", "-key", str(KEY.verifier)]):
        subprocess.run(
            [control, command[0], "-db", database, "-origin", ORIGIN, *command[1:]],
            check=True,
            capture_output=True,
        )
    address = f"127.0.0.1:{free_port()}"
    public = base64.b64decode(key.with_suffix(".pub").read_text().split()[1])[-32:]
    shown = subprocess.run([keygen, "-lf", key], check=True, capture_output=True, text=True)
    with running(agent, "-D", "-a", agent_socket):
        wait_until(lambda: Path(agent_socket).exists())
        subprocess.run(
            [add, "-q", key], check=True, env=os.environ | {"SSH_AUTH_SOCK": agent_socket}
        )
        with running(
            witness, "-name", NAME, "-db", database, "-ssh-agent", agent_socket,
            "-key", shown.stdout.split()[1], "-listen", address,
        ):  # fmt: skip
            wait_until(lambda: _answers(f"http://{address}/"))
            yield WitnessAddress(VerifierKey(NAME, COSIGNATURE, public), f"http://{address}")


def _answers(url: str) -> bool:
    try:
        request(url)
    except RemoteUnreachable:
        return False
    return True


def test_litewitness_cosigns_every_checkpoint(litewitness: WitnessAddress) -> None:
    """It cosigns a log that grows, each time, and refuses a fork of it."""
    log = LogInMemory([])
    client = WitnessClient(litewitness)

    async def make_proof(old_size: int, size: int) -> list[bytes]:
        return consistency_proof(old_size, size, log.hash_of)

    async def offer_all() -> None:
        for number in range(100):
            log.append([f"{number} {leaf}".encode() for leaf in range(1 + number * 7 % 40)])
            note = log.signed_checkpoint()
            line = await client.cosign(note, make_proof)
            opened = open_note(note + line, [KEY.verifier, litewitness.key])
            assert opened.text == log.checkpoint().text
            assert len(opened.signatures) == 2

    asyncio.run(offer_all())
    restarted = WitnessClient(litewitness)  # which learns the size from the witness
    assert asyncio.run(restarted.cosign(log.signed_checkpoint(), make_proof))
    log = LogInMemory([b"another", *log.leaves[1:], b"more"])
    with pytest.raises(WitnessRefused, match="status 422"):
        asyncio.run(client.cosign(log.signed_checkpoint(), make_proof))


async def test_litewitness_cosigns_the_checkpoints_of_a_busy_server(
    litewitness: WitnessAddress, seeded: SeededDatabase, tmp_path: Path
) -> None:
    """It refuses none of them while money moves all the time."""
    key_file = tmp_path / "log-key"
    write_key(key_file, LogKey(KEY))
    environment = {
        "OUSEL_PORTAL_URL": f"https://{ORIGIN.removesuffix('/log')}",
        "OUSEL_LOG_KEY_FILE": str(key_file),
        "OUSEL_WITNESSES": f"{litewitness.key} {litewitness.url}",
    }
    cosigned: set[str] = set()
    with Server(seeded.url, **environment) as server:
        load = Load(seeded, server.port, between_seconds=0.05)
        async with server.client() as client, load.running():

            async def has_another_cosigned() -> bool:
                before = len(cosigned)
                answer = await client.get(f"{server.origin}/log/checkpoint")
                if answer.status_code == HTTPStatus.OK:
                    opened = open_note(answer.text, [KEY.verifier, litewitness.key])
                    cosigned.update([opened.text] if len(opened.signatures) == 2 else [])
                return len(cosigned) > before

            while len(cosigned) < CHECKPOINTS_COSIGNED:
                await until_async(has_another_cosigned)
        assert "does not cosign" not in server.stop()
    await assert_settled_exactly_once(load)
