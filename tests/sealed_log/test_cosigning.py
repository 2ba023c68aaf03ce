"""Servers ask witnesses to cosign the log, and publish what they get."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ousel.database.port import Transaction
from ousel.kernel.clock import system_clock
from ousel.ledger.rules import Entry
from ousel.ledger.verify import DatabaseLedger
from ousel.sealed_log import store
from ousel.sealed_log.checkpoints import open_checkpoint
from ousel.sealed_log.cosigning import CLAIM_SECONDS, PAUSE_SECONDS_MAX, Cosigning
from ousel.sealed_log.notes import COSIGNATURE, NoteRefused, SigningKey
from ousel.sealed_log.notifier import LogNotifier
from ousel.sealed_log.service import LogReader
from ousel.sealed_log.witness_client import WitnessAddress, parse_witnesses
from ousel.sealed_log.witness_server import Witness, serve_witness
from tests.sealed_log.logs import Log
from tests.support import accounts
from tests.support.clock import ManualClock
from tests.support.ports import free_port

WITNESS = SigningKey("witness.example.com/w1", bytes(32), COSIGNATURE)
OTHER = SigningKey("witness.example.com/w2", bytes([1] * 32), COSIGNATURE)


@contextmanager
def serving(
    log: Log, state: Path, key: SigningKey = WITNESS, port: int = 0
) -> Iterator[WitnessAddress]:
    """Serve a witness that knows the log, until the block ends."""
    assert log.key_holder.key is not None
    witness = Witness(key, [log.key_holder.key.verifier], state, lambda: 1_700_000_000)
    with serve_witness(witness, "127.0.0.1", port) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield WitnessAddress(key.verifier, f"http://127.0.0.1:{server.server_port}")
        finally:
            server.shutdown()
            thread.join()


def reader_of(log: Log, *keys: SigningKey) -> LogReader:
    """Return a reader that shows the cosignatures of these witnesses."""
    verifiers = [key.verifier for key in keys]
    return LogReader(log.database, log.key_holder, LogNotifier(log.database), verifiers)


async def seal_more(log: Log, count: int = 3) -> None:
    """Seal some more movements."""
    for _ in range(count):
        await accounts.partner(log.database, accounts.unique_name("shop"), "5")
    await log.sealer.seal_all()


async def test_a_claim_made_while_the_clock_was_ahead_ends_with_it(log: Log) -> None:
    """Otherwise no process could ask the witness until the clock has caught up."""

    async def claims(process: str, now: int) -> bool:
        until = now + 60
        return await log.database.write(
            lambda transaction: store.claim_witness(transaction, "w", process, now, until)
        )

    assert await claims("ahead", now=86_400)
    assert await claims("one", now=100)
    assert not await claims("other", now=99)  # its clock is a little behind
    assert not await claims("other", now=130)
    assert await claims("other", now=161)


async def witnesses_on(log: Log, *keys: SigningKey) -> list[str]:
    """Return the witnesses whose cosignatures the published checkpoint has."""
    note = await reader_of(log, *keys).checkpoint()
    assert note is not None
    assert log.key_holder.key is not None
    _, opened = open_checkpoint(note, [log.key_holder.key.verifier], [key.verifier for key in keys])
    return [each.key.name for each in opened.signatures if each.signed_at is not None]


async def test_each_checkpoint_is_cosigned_and_published(log: Log, tmp_path: Path) -> None:
    """By both witnesses, also after the log has grown, and after the server has restarted."""
    keys, clock = (WITNESS, OTHER), ManualClock()
    with (
        serving(log, tmp_path / "one", WITNESS) as first,
        serving(log, tmp_path / "two", OTHER) as second,
    ):
        for _ in range(2):  # the second round has new objects, as after a restart
            clock.advance(seconds=CLAIM_SECONDS + 1)
            asked = [
                Cosigning(log.database, clock, reader_of(log, *keys), each)
                for each in (first, second)
            ]
            for _ in range(2):
                await seal_more(log)
                assert await witnesses_on(log, *keys) == []
                for each in asked:
                    await each.offer_due()
                assert await witnesses_on(log, *keys) == [key.verifier.name for key in keys]
                assert await witnesses_on(log, WITNESS) == [WITNESS.verifier.name]
                assert await witnesses_on(log) == []


async def test_a_witness_that_is_down_delays_nothing(
    log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is asked again after a pause; once it is back, it catches up."""
    now = 0.0
    monkeypatch.setattr("ousel.sealed_log.cosigning.monotonic", lambda: now)
    port = free_port()
    address = WitnessAddress(WITNESS.verifier, f"http://127.0.0.1:{port}")
    asked = Cosigning(log.database, system_clock, reader_of(log, WITNESS), address)
    await seal_more(log)
    for _ in range(3):
        await asked.offer_due()
        now += PAUSE_SECONDS_MAX
    await asked.offer_due()
    assert await witnesses_on(log, WITNESS) == []
    assert await log.assert_complete() == 3
    with serving(log, tmp_path / "state", port=port):
        await asked.offer_due()
        assert await witnesses_on(log, WITNESS) == []
        now += PAUSE_SECONDS_MAX
        await asked.offer_due()
        assert await witnesses_on(log, WITNESS) == [WITNESS.verifier.name]


async def test_one_process_asks_a_witness_at_a_time(log: Log, tmp_path: Path) -> None:
    """Another process takes over once the first has not asked for a while."""
    clock = ManualClock()
    with serving(log, tmp_path / "state") as address:
        first, second = (
            Cosigning(log.database, clock, reader_of(log, WITNESS), address) for _ in range(2)
        )
        await seal_more(log)
        await first.offer_due()
        await seal_more(log)
        await second.offer_due()
        assert await witnesses_on(log, WITNESS) == []
        clock.advance(seconds=CLAIM_SECONDS + 1)
        await second.offer_due()
        assert await witnesses_on(log, WITNESS) == [WITNESS.verifier.name]


async def test_a_receipt_has_the_newest_cosigned_checkpoint(log: Log, tmp_path: Path) -> None:
    """A movement that was sealed later has the newest checkpoint, without a cosignature."""
    reader = reader_of(log, WITNESS)
    with serving(log, tmp_path / "state") as address:
        await seal_more(log)
        await Cosigning(log.database, system_clock, reader, address).offer_due()
    await seal_more(log)
    sizes = {}
    for entry in await log.database.snapshot(_all_entries):
        found = await reader.find_entry(entry)
        assert log.key_holder.key is not None
        checkpoint, opened = open_checkpoint(
            found.inclusion.checkpoint, [log.key_holder.key.verifier], [WITNESS.verifier]
        )
        sizes[found.inclusion.index] = (checkpoint.size, len(opened.signatures))
    assert sizes == {index: (3, 2) if index < 3 else (6, 1) for index in range(6)}


async def test_a_cosignature_of_the_former_key_does_not_hide_a_newer_one(
    log: Log, tmp_path: Path
) -> None:
    """A witness that has not learned of the new key yet keeps its old cosignature."""
    reader = reader_of(log, WITNESS, OTHER)
    await seal_more(log)
    with serving(log, tmp_path / "first") as address:
        await Cosigning(log.database, system_clock, reader, address).offer_due()
    assert log.key_holder.key is not None
    log.key_holder.key = log.key_holder.key.create_successor()
    await log.sealer.seal_all()
    with serving(log, tmp_path / "second", OTHER) as address:
        await Cosigning(log.database, system_clock, reader, address).offer_due()

    entry = (await log.database.snapshot(_all_entries))[0]
    found = await reader.find_entry(entry)
    assert OTHER.verifier.name in found.inclusion.checkpoint


async def _all_entries(transaction: Transaction) -> list[Entry]:
    return [entry async for page in DatabaseLedger(transaction).entries() for entry in page]


def test_a_list_of_witnesses_is_checked() -> None:
    """A wrong key or address is named when the server starts, and so is a missing comma."""
    vkey = str(WITNESS.verifier)
    parsed = parse_witnesses(f"{vkey} https://one.example/,  {OTHER.verifier} http://two.example")
    assert [each.url for each in parsed] == ["https://one.example", "http://two.example"]
    assert parse_witnesses("") == []
    log_key = SigningKey("pay.example/log", bytes(32)).verifier
    two_without_comma = f"{vkey} https://x {OTHER.verifier} https://y"
    wrong = (vkey, f"{vkey} ftp://x", "nonsense https://x", f"{log_key} https://x")
    for text in (*wrong, two_without_comma):
        with pytest.raises(NoteRefused):
            parse_witnesses(text)
