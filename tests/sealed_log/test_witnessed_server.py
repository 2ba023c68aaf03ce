"""A real server and a witness: its cosignature is on the checkpoint and in receipts."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from ousel.database.addresses import open_database
from ousel.sealed_log.audit import Auditor
from ousel.sealed_log.checkpoints import open_checkpoint
from ousel.sealed_log.keys import new_key, write_key
from ousel.sealed_log.notes import COSIGNATURE, SigningKey, VerifierKey, parse_verifier_key
from ousel.sealed_log.receipt_check import check_receipt
from ousel.sealed_log.remote import RemoteLog
from ousel.sealed_log.witness_server import Witness, serve_witness
from tests.cli.commands import assert_fails, ousel_process
from tests.support.accounts import partner, unique_name
from tests.support.engines import Engine, Engines
from tests.support.ports import free_port
from tests.support.server import Server
from tests.support.waiting import wait_until

WITNESS = SigningKey("witness.example.com/w1", bytes(32), COSIGNATURE)

pytestmark = pytest.mark.slow


@contextmanager
def serving(log_key: VerifierKey, port: int, state: Path) -> Iterator[None]:
    """Serve a witness of this log until the block ends."""
    witness = Witness(WITNESS, [log_key], state, lambda: 1_700_000_000)
    with serve_witness(witness, "127.0.0.1", port) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()


async def test_receipts_have_the_cosignature_of_a_witness(
    database_url: str, tmp_path: Path
) -> None:
    """The witness comes after the server, which works without it and needs no restart."""
    port = free_port()
    witnesses = f"{WITNESS.verifier} http://127.0.0.1:{port}"
    key_file = tmp_path / "log-key"
    write_key(key_file, new_key("pay.example/log"))
    with Server(
        database_url, OUSEL_WITNESSES=witnesses, OUSEL_LOG_KEY_FILE=str(key_file)
    ) as server:
        async with open_database(database_url) as database:
            shop = await partner(database, unique_name("shop"), "5")
        log_key = parse_verifier_key(httpx2.get(f"{server.origin}/log/key").text)
        headers = {"Authorization": f"Bearer {shop.key}"}
        (funding,) = httpx2.get(f"{server.base_url}/transfers", headers=headers).json()["data"]
        auditor = Auditor([log_key], tmp_path / "audit", [WITNESS.verifier])
        wait_until(
            lambda: httpx2.get(f"{server.origin}/log/checkpoint", verify=False).status_code == 200
        )
        assert auditor.audit(RemoteLog(f"{server.origin}/log")).cosignatures == []

        def is_cosigned() -> bool:
            note = httpx2.get(f"{server.origin}/log/checkpoint", verify=False).text
            _, opened = open_checkpoint(note, [log_key], [WITNESS.verifier])
            return len(opened.signatures) == 2

        with serving(log_key, port, tmp_path / "state.json"):
            wait_until(is_cosigned)
        answer = httpx2.get(
            f"{server.base_url}/transfers/{funding['id']}/receipt",
            headers=headers | {"Prefer": "wait=60"},
        )
        checked = check_receipt(answer.content, [log_key], [WITNESS.verifier])
        assert [each.key.name for each in checked.cosignatures] == ["witness.example.com/w1"]
        audited = auditor.audit(RemoteLog(f"{server.origin}/log"))
        assert [each.signed_at for each in audited.cosignatures] == [1_700_000_000]


def test_a_malformed_list_of_witnesses_is_refused_in_one_line(
    engines: Engines, engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server ends before it sets the database's mode, however many processes it was to have."""
    url = engines.fresh_url(engine, tmp_path)
    command = ["serve", "--sandbox", f"--port={free_port()}"]
    if engine != "sqlite":
        command.append("--workers=2")
    monkeypatch.setenv("OUSEL_WITNESSES", "nonsense")
    assert_fails(ousel_process(*command, database=url), "OUSEL_WITNESSES must be a list")
    monkeypatch.delenv("OUSEL_WITNESSES")
    with Server(url):  # it is live: the sandbox did not set the mode
        pass
