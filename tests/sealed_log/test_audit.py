"""The audit finds a log that does not extend what it showed before, and keeps the evidence."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typing_extensions import override

from ousel.sealed_log import audit
from ousel.sealed_log.audit import AuditFailed, Auditor, LogInconsistent
from ousel.sealed_log.checkpoints import Checkpoint
from ousel.sealed_log.merkle import Node
from ousel.sealed_log.notes import COSIGNATURE, SigningKey, sign_note
from ousel.sealed_log.remote import RemoteUnreachable
from ousel.sealed_log.tiles import TileHashes
from tests.sealed_log.examples import KEY, ORIGIN, LogInMemory

LEAVES = [f"leaf {number}".encode() for number in range(600)]
WITNESS = SigningKey("witness.example.com/w1", bytes(32), COSIGNATURE)


class Published:
    """A log in memory, as its public files show it."""

    def __init__(self, log: LogInMemory, note: str | None = None) -> None:
        self._log = log
        self._note = note or log.signed_checkpoint(WITNESS)

    def checkpoint(self) -> str:
        return self._note

    def hashes(self, _: Sequence[Node], size: int) -> TileHashes:
        assert size <= max(len(self._log.leaves), 1) * 2
        return self._log.hash_of


class WithoutHashes(Published):
    """A log that shows a checkpoint, but none of its hashes."""

    @override
    def hashes(self, _: Sequence[Node], size: int) -> TileHashes:
        raise RemoteUnreachable(f"no hashes of {size} leaves")


@pytest.fixture
def auditor(tmp_path: Path) -> Auditor:
    return Auditor([KEY.verifier], tmp_path / "state", [WITNESS.verifier])


@pytest.mark.slow
@settings(max_examples=20)  # each example flushes files to the disk
@given(sizes=st.lists(st.integers(0, 600), min_size=1, max_size=4).map(sorted))
def test_a_log_that_grows_is_consistent(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int]
) -> None:
    auditor = Auditor([KEY.verifier], tmp_path_factory.mktemp("audit") / "state")
    before = None
    for size in sizes:
        audited = auditor.audit(Published(LogInMemory(LEAVES[:size])))
        assert audited.checkpoint.size == size
        assert audited.previous == before
        before = audited.checkpoint
    assert not auditor.evidence.exists()


def test_the_cosignatures_of_known_witnesses_are_named(auditor: Auditor) -> None:
    audited = auditor.audit(Published(LogInMemory(LEAVES[:5])))
    assert [each.key.name for each in audited.cosignatures] == ["witness.example.com/w1"]


@pytest.mark.parametrize(
    ("now", "reason"),
    [
        (LEAVES[:299], "had 300 leaves before, and now it has 299"),
        ([b"another", *LEAVES[1:300]], "have different roots"),
        ([b"another", *LEAVES[1:400]], "leads to other roots"),
        ([*LEAVES[:150], *LEAVES[151:500]], "leads to other roots"),
    ],
    ids=["shorter", "same size, another leaf", "longer, another leaf", "a leaf left out"],
)
def test_a_rewritten_log_is_found_and_the_evidence_kept(
    auditor: Auditor, now: list[bytes], reason: str
) -> None:
    """The evidence has both checkpoints; the state still has the first."""
    first, second = LogInMemory(LEAVES[:300]), LogInMemory(now)
    auditor.audit(Published(first))
    for _ in range(2):
        with pytest.raises(LogInconsistent, match=reason):
            auditor.audit(Published(second))
    evidence = auditor.evidence.read_text()
    assert first.signed_checkpoint() in evidence
    assert second.signed_checkpoint() in evidence
    assert auditor.audit(Published(LogInMemory(LEAVES[:301]))).previous == first.checkpoint()


def test_evidence_is_never_overwritten(auditor: Auditor) -> None:
    """The log could otherwise replace a proof of its fork with something harmless."""
    fork, shorter = LogInMemory([b"another", *LEAVES[1:300]]), LogInMemory(LEAVES[:299])
    auditor.audit(Published(LogInMemory(LEAVES[:300])))
    for found in (fork, shorter, fork):
        with pytest.raises(LogInconsistent):
            auditor.audit(Published(found))
    evidence = auditor.evidence.read_text()
    assert [evidence.count(each.signed_checkpoint()) for each in (fork, shorter)] == [1, 1]


def test_evidence_does_not_fill_the_disk(auditor: Auditor, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log can contradict itself in another way each time. What is not saved is printed."""
    monkeypatch.setattr(audit, "EVIDENCE_BYTES_MAX", 1_000)
    auditor.audit(Published(LogInMemory(LEAVES[:300])))
    for size in range(280, 300):
        checkpoint = LogInMemory(LEAVES[:size]).signed_checkpoint()
        for _ in range(2):
            with pytest.raises(LogInconsistent) as found:
                auditor.audit(Published(LogInMemory(LEAVES[:size])))
            _, is_printed, printed = str(found.value).partition("is full; it would contain ")
            assert checkpoint in (json.loads(printed) if is_printed else saved(auditor))
    assert LogInMemory(LEAVES[:280]).signed_checkpoint() in saved(auditor)
    assert len(saved(auditor)) < 3_000


def saved(auditor: Auditor) -> str:
    """Return the evidence in the file."""
    return auditor.evidence.read_text()


def test_an_inconsistency_is_reported_although_the_evidence_cannot_be_written(
    auditor: Auditor,
) -> None:
    """Then the message contains both checkpoints: the log may never show the fork again."""
    first, fork = LogInMemory(LEAVES[:300]), LogInMemory([b"another", *LEAVES[1:300]])
    auditor.audit(Published(first))
    auditor.evidence.mkdir()
    with pytest.raises(LogInconsistent, match="cannot be written") as found:
        auditor.audit(Published(fork))
    assert "\n" not in str(found.value)
    evidence = json.loads(str(found.value).partition("it would contain ")[2])
    for each in (first, fork):
        assert each.signed_checkpoint() in evidence


def test_two_roots_for_one_size_are_evidence_even_without_hashes(auditor: Auditor) -> None:
    """A log that hides the hashes of a fork cannot hide that it has signed the fork."""
    first, fork = LogInMemory(LEAVES[:300]), LogInMemory([b"another", *LEAVES[1:300]])
    auditor.audit(Published(first))
    with pytest.raises(LogInconsistent, match="have different roots"):
        auditor.audit(WithoutHashes(fork))
    evidence = auditor.evidence.read_text()
    for each in (first, fork):
        assert each.signed_checkpoint() in evidence


def test_hashes_that_do_not_have_the_signed_root_are_found(auditor: Auditor) -> None:
    """A log cannot show a checkpoint without the tree under it."""
    log = LogInMemory(LEAVES[:5])
    note = sign_note(Checkpoint(ORIGIN, 5, b"\1" * 32).text, [KEY])
    with pytest.raises(LogInconsistent, match="another root than the signed one"):
        auditor.audit(Published(log, note))
    note = sign_note(Checkpoint(ORIGIN, 6, log.checkpoint().root).text, [KEY])
    with pytest.raises(LogInconsistent, match="does not publish all hashes"):
        auditor.audit(Published(log, note))


def test_a_checkpoint_of_another_key_is_no_evidence(auditor: Auditor) -> None:
    """Anyone on the way can send such a checkpoint, so nothing is concluded from it."""
    other = SigningKey(ORIGIN, bytes(32))
    log = LogInMemory(LEAVES[:5])
    with pytest.raises(AuditFailed, match="cannot be verified"):
        auditor.audit(Published(log, sign_note(log.checkpoint().text, [other])))
    assert not auditor.evidence.exists()


def test_an_audit_continues_with_both_keys_after_the_key_was_replaced(
    auditor: Auditor, tmp_path: Path
) -> None:
    """With one key alone nothing is audited, and the message says what to do."""
    first, second = LogInMemory(LEAVES[:5]), LogInMemory(LEAVES[:6])
    auditor.audit(Published(first))
    successor = SigningKey(ORIGIN, bytes(32))
    continued = Published(second, sign_note(second.checkpoint().text, [successor]))
    for one in (KEY.verifier, successor.verifier):
        with pytest.raises(AuditFailed, match="give both: --key OLD --key NEW"):
            Auditor([one], tmp_path / "state").audit(continued)

    both = Auditor([KEY.verifier, successor.verifier], tmp_path / "state")
    assert both.audit(continued).previous == first.checkpoint()


def test_the_state_of_another_log_is_refused(auditor: Auditor, tmp_path: Path) -> None:
    auditor.audit(Published(LogInMemory(LEAVES[:5])))
    other = SigningKey("other.example.com/log", bytes(32))
    note = sign_note(
        Checkpoint("other.example.com/log", 5, LogInMemory(LEAVES[:5]).checkpoint().root).text,
        [other],
    )
    with pytest.raises(AuditFailed, match=f"is about {ORIGIN}"):
        Auditor([KEY.verifier, other.verifier], tmp_path / "state").audit(
            Published(LogInMemory(LEAVES[:5]), note)
        )
