"""`ousel log witness` and `ousel log audit`, as processes of their own."""

import asyncio
import functools
import http.server
import json
import socket
import socketserver
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from typing_extensions import override

from ousel.sealed_log.merkle import consistency_proof
from ousel.sealed_log.notes import parse_verifier_key
from ousel.sealed_log.tiles import tile_of_size
from ousel.sealed_log.witness_client import WitnessAddress, WitnessClient, WitnessRefused
from tests.cli.commands import OUSEL, Outcome, assert_fails, ousel
from tests.sealed_log.examples import KEY, LogInMemory
from tests.support.ports import free_port
from tests.support.server import wait_for_http

pytestmark = pytest.mark.one_engine

NOWHERE = "sqlite:////nowhere/at/all.db"


def publish(log: LogInMemory, folder: Path) -> None:
    """Write the public files of a log, as they are served."""
    (folder / "checkpoint").write_text(log.signed_checkpoint())
    for key, hashes in log.tiles.items():
        tile = tile_of_size(key, len(log.leaves))
        assert tile is not None
        file = folder / "tile" / tile.address
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(hashes)


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    @override
    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """The address of a folder that is served, and the folder."""
    folder = tmp_path / "log"
    folder.mkdir()
    handler = functools.partial(QuietHandler, directory=folder)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", folder
        finally:
            server.shutdown()
            thread.join()


def audit(url: str, state: Path, *options: str) -> Outcome:
    arguments = ("log", "audit", url, f"--key={KEY.verifier}", f"--state={state}", *options)
    return ousel(*arguments, database=NOWHERE)


def test_an_audit_follows_a_log_and_finds_a_rewritten_one(
    served: tuple[str, Path], tmp_path: Path
) -> None:
    """It names what is wrong, exits with 1, and saves both checkpoints."""
    url, folder = served
    state = tmp_path / "state"
    log = LogInMemory([f"leaf {number}".encode() for number in range(700)])
    publish(log, folder)
    assert audit(url, state, "--json").json["size"] == 700
    log.append([b"more"])
    publish(log, folder)
    assert audit(url, state).rows["since"] == "700"

    publish(LogInMemory([b"another", *log.leaves[1:], b"more"]), folder)
    done = audit(url, state)
    evidence = tmp_path / "state.evidence"
    assert_fails(done, "is inconsistent: the consistency proof leads to other roots")
    assert_fails(done, f"the evidence is in {evidence}")
    assert log.signed_checkpoint() in evidence.read_text()


@pytest.mark.slow
def test_an_audit_that_continues_says_in_one_line_each_why_it_failed(
    served: tuple[str, Path], tmp_path: Path
) -> None:
    """Standard error is read line by line, so a long reason is not broken in two."""
    address = f"{served[0]}/{'long' * 20}"
    command = ["log", "audit", address, f"--key={KEY.verifier}", f"--state={tmp_path / 'state'}"]
    with subprocess.Popen([OUSEL, *command, "--every=1"], stderr=subprocess.PIPE) as auditing:
        assert auditing.stderr is not None
        lines = [auditing.stderr.readline().decode() for _ in range(2)]
        auditing.terminate()
    assert all(line.startswith(f"ousel: {address} was not audited: ") for line in lines)
    assert ousel(*command, "--every=inf", database=NOWHERE).exit_code == 2


def test_an_audit_of_nothing_says_why(served: tuple[str, Path], tmp_path: Path) -> None:
    """An address without a log is a failure, but no evidence against anyone."""
    url, _ = served
    done = audit(url, tmp_path / "state")
    assert_fails(done, f"{url} was not audited: {url}/checkpoint answers with status 404")
    assert_fails(audit("file:///etc", tmp_path / "state"), "is not an http or https address")
    assert not (tmp_path / "state.evidence").exists()


class ForgedLine(socketserver.StreamRequestHandler):
    """Sends something other than a status line, with which a terminal would show another line."""

    @override
    def handle(self) -> None:
        self.wfile.write(b"\x1b[1A\x1b[2K\rthe log is consistent" + b" " * 9000 + b"\n")


def test_a_log_cannot_control_the_terminal(tmp_path: Path) -> None:
    """What it sends instead of an answer is quoted in one short line, with escapes."""
    with socketserver.TCPServer(("127.0.0.1", 0), ForgedLine) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        done = audit(f"http://127.0.0.1:{server.server_address[1]}", tmp_path / "state")
        thread.join()
    assert_fails(done, r"\x1b[1A\x1b[2K\rthe log is consistent")
    assert done.errors[:-1].isprintable()
    assert len(done.errors) < 500


@contextmanager
def running_witness(folder: Path) -> Iterator[WitnessAddress]:
    """Run `ousel log witness` until the block ends."""
    port = free_port()
    command = [
        str(OUSEL), "log", "witness", f"--log-key={KEY.verifier}", "--name=witness.example.com/one",
        f"--folder={folder}", f"--port={port}", "--json",
    ]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            wait_for_http(f"http://127.0.0.1:{port}/")
            assert process.stdout is not None
            lines = [process.stdout.readline() for _ in range(5)]
            record = json.loads("".join(lines))
            yield WitnessAddress(parse_verifier_key(record["key"]), record["listening"])
        finally:
            process.kill()


@pytest.mark.slow
def test_a_witness_that_was_killed_remembers(tmp_path: Path) -> None:
    """After SIGKILL, it has the same key, knows the last size, and refuses a fork."""
    folder = tmp_path / "witness"
    log = LogInMemory([b"one", b"two", b"three"])

    async def make_proof(old_size: int, size: int) -> list[bytes]:
        return consistency_proof(old_size, size, log.hash_of)

    with running_witness(folder) as witness:
        assert asyncio.run(WitnessClient(witness).cosign(log.signed_checkpoint(), make_proof))
        second = subprocess.run(
            [str(OUSEL), "log", "witness", f"--log-key={KEY.verifier}",
             "--name=witness.example.com/one", f"--folder={folder}"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert (second.returncode, second.stderr) == (
            1, f"ousel: another witness uses the folder {folder}\n",
        )  # fmt: skip
    log.append([b"four"])
    with running_witness(folder) as restarted:
        assert restarted.key == witness.key
        assert asyncio.run(WitnessClient(restarted).cosign(log.signed_checkpoint(), make_proof))
        log = LogInMemory([b"another", *log.leaves[1:], b"five"])
        with pytest.raises(WitnessRefused, match="status 422"):
            asyncio.run(WitnessClient(restarted).cosign(log.signed_checkpoint(), make_proof))
    key = folder / "key"
    assert key.stat().st_mode & 0o777 == 0o600


def test_a_witness_says_that_its_port_is_taken(tmp_path: Path) -> None:
    """In the words of the server: with the address, and the option that chooses another."""
    command = ("log", "witness", f"--log-key={KEY.verifier}", "--name=witness.example.com/one")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        outcome = ousel(*command, f"--folder={tmp_path}", f"--port={port}", database=NOWHERE)

    assert_fails(outcome, f"127.0.0.1, port {port}: the port is taken; choose another with --port")


def test_a_witness_without_an_address_is_refused(tmp_path: Path) -> None:
    """An unset variable must not let it listen on every address."""
    command = ("log", "witness", f"--log-key={KEY.verifier}", "--name=witness.example.com/one")

    outcome = ousel(*command, f"--folder={tmp_path}", "--host=", database=NOWHERE)

    assert_fails(outcome, "there is no address to listen on; for all addresses, use 0.0.0.0")
    assert list(tmp_path.iterdir()) == []
