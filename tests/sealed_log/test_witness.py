"""A witness cosigns checkpoints that extend the last one that it cosigned, and nothing else."""

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ousel.sealed_log.checkpoints import Checkpoint
from ousel.sealed_log.merkle import EMPTY_ROOT, consistency_proof
from ousel.sealed_log.notes import COSIGNATURE, SigningKey, open_note, sign_note
from ousel.sealed_log.witness_rules import (
    AddCheckpoint,
    RequestMalformed,
    answer_request,
    parse_request,
)
from ousel.sealed_log.witness_server import (
    STATE_FORMAT,
    StateUnusable,
    Witness,
    serve_witness,
)
from tests.sealed_log.examples import KEY, ORIGIN, LogInMemory

WITNESS = SigningKey("witness.example.com/w1", bytes(32), COSIGNATURE)
LOG = LogInMemory([f"leaf {number}".encode() for number in range(40)])
FORK = LogInMemory([b"another", *LOG.leaves[1:]])
KNOWN = [KEY.verifier]


def request(old_size: int, size: int, log: LogInMemory = LOG) -> AddCheckpoint:
    """Return the request to cosign the log at this size."""
    proof = consistency_proof(old_size, size, log.hash_of) if old_size <= size else []
    return AddCheckpoint(old_size, proof, sign_note(log.checkpoint(size).text, [KEY]))


@given(old=st.integers(0, 40), size=st.integers(0, 40), last=st.integers(0, 40))
def test_a_witness_cosigns_exactly_what_extends_its_last_checkpoint(
    old: int, size: int, last: int
) -> None:
    """A wrong old size is told the right one; a smaller tree is never cosigned."""
    asked = request(old, size)
    answer = answer_request(asked, KNOWN, LOG.checkpoint(last), WITNESS, 1_700_000_000)
    if old > size:
        assert answer.status == 400
    elif old != last:
        assert (answer.status, answer.body) == (409, f"{last}\n")
    else:
        assert answer.status == 200
        assert answer.cosigned == asked.checkpoint + answer.body
        opened = open_note(answer.cosigned, [WITNESS.verifier])
        assert opened.signatures[0].signed_at == 1_700_000_000
        return
    assert answer.cosigned is None


@given(last=st.integers(1, 40), size=st.integers(1, 40))
def test_a_fork_is_never_cosigned(last: int, size: int) -> None:
    """Whatever proof comes with it: the log's own, the fork's own, or none."""
    for log in (LOG, FORK):
        if last > size:
            break
        proof = consistency_proof(last, size, log.hash_of)
        asked = AddCheckpoint(last, proof, sign_note(FORK.checkpoint(size).text, [KEY]))
        answer = answer_request(asked, KNOWN, LOG.checkpoint(last), WITNESS, 1)
        assert (answer.status, answer.cosigned) == (409 if last == size else 422, None)


def test_only_the_logs_own_signature_counts() -> None:
    asked = request(0, 3)
    assert answer_request(asked, [], None, WITNESS, 1).status == 404
    other = SigningKey(ORIGIN, bytes(32))
    assert answer_request(asked, [other.verifier], None, WITNESS, 1).status == 403
    empty = sign_note(Checkpoint(ORIGIN, 0, b"\1" * 32).text, [KEY])
    assert answer_request(AddCheckpoint(0, [], empty), KNOWN, None, WITNESS, 1).status == 409
    assert answer_request(AddCheckpoint(0, [EMPTY_ROOT], asked.checkpoint), KNOWN, None, WITNESS, 1
                          ).status == 422  # fmt: skip


def test_lines_of_strangers_are_not_kept() -> None:
    """Otherwise they could fill the note until it is too long to be read again."""
    asked = request(0, 3)
    strangers = "".join(f"— evil{number} AAAAAAAA\n" for number in range(99))
    padded = AddCheckpoint(0, asked.proof, asked.checkpoint + strangers)
    answer = answer_request(padded, KNOWN, None, WITNESS, 1)
    assert (answer.status, answer.cosigned) == (200, asked.checkpoint + answer.body)


@given(old=st.integers(0, 40), size=st.integers(0, 40))
def test_a_request_survives_being_sent(old: int, size: int) -> None:
    asked = request(old, size)
    assert parse_request(asked.encode()) == asked


@given(body=st.binary(max_size=100) | st.text(max_size=100).map(str.encode))
def test_a_malformed_request_is_refused(body: bytes) -> None:
    for prefix in (b"", b"old 1\n", b"old 0\n\n"):
        try:
            parsed = parse_request(prefix + body)
        except RequestMalformed:
            continue
        assert parsed.encode() == prefix + body


@pytest.mark.parametrize(
    "body", [b"old 01\n\nx", b"old 1\nAAAA\n\nx", b"old 1\n" + b"A" * 43 + b"=\n" * 99, b"old\n\n"]
)
def test_a_request_outside_its_limits_is_refused(body: bytes) -> None:
    with pytest.raises(RequestMalformed):
        parse_request(body)


@contextmanager
def running(witness: Witness) -> Iterator[HTTPConnection]:
    """Serve a witness on a free port until the block ends."""
    with serve_witness(witness, "127.0.0.1", 0) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        connection = HTTPConnection("127.0.0.1", server.server_port)
        try:
            yield connection
        finally:
            connection.close()
            server.shutdown()
            thread.join()


def post(connection: HTTPConnection, body: bytes, path: str = "/add-checkpoint") -> tuple[int, str]:
    """Return the status and the body of the answer to a POST request."""
    connection.request("POST", path, body)
    answer = connection.getresponse()
    if answer.status == 409:
        assert answer.headers["Content-Type"] == "text/x.tlog.size"
    return answer.status, answer.read().decode()


@pytest.mark.one_engine
def test_a_witness_remembers_what_it_cosigned(tmp_path: Path) -> None:
    """A new process with the same state file knows the last size, and refuses a fork of it."""
    state = tmp_path / "state.json"
    witness = Witness(WITNESS, KNOWN, state, lambda: 7)
    with running(witness) as connection:
        assert post(connection, request(0, 10).encode())[0] == 200
        assert post(connection, request(10, 30).encode())[0] == 200
        connection.request("GET", "/" + "0" * 64 + "/checkpoint")
        answer = connection.getresponse()
        assert (answer.status, answer.read()[:12]) == (404, b"this witness")

    restarted = Witness(WITNESS, KNOWN, state, lambda: 8)
    with running(restarted) as connection:
        assert post(connection, request(10, 40).encode()) == (409, "30\n")
        assert post(connection, request(30, 40, FORK).encode())[0] == 422
        assert post(connection, request(30, 30).encode())[0] == 200
        assert post(connection, b"GET / HTTP/1.1\r\n\r\n", "/other")[0] == 404
        assert post(connection, b"nonsense")[0] == 400
    name = hashlib.sha256(ORIGIN.encode()).hexdigest()
    note = Witness(WITNESS, KNOWN, state, lambda: 9).last_checkpoint(name)
    assert note is not None
    assert open_note(note, [WITNESS.verifier]).text == LOG.checkpoint(30).text


@pytest.mark.one_engine
def test_nothing_is_cosigned_unless_the_state_can_be_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The answer says why, and so does the witness's own output.

    When the disk works again, the same request is cosigned.
    """
    folder = tmp_path / "folder"
    with running(Witness(WITNESS, KNOWN, folder / "state.json", lambda: 7)) as connection:
        status, body = post(connection, request(0, 10).encode())
        assert (status, body.count("\n")) == (500, 1)
        assert body.startswith("the state of this witness cannot be written: No such file")
        assert capsys.readouterr().err == f"ousel: {body.partition(';')[0]}\n"
        folder.mkdir()
        assert post(connection, request(0, 10).encode())[0] == 200


def test_a_damaged_state_is_not_taken_for_an_empty_one(tmp_path: Path) -> None:
    """Otherwise the witness would cosign a log that starts again."""
    state = tmp_path / "state.json"
    checkpoints = {"other.example/log": LOG.signed_checkpoint()}
    under_another_name = json.dumps({"format": STATE_FORMAT, "checkpoints": checkpoints})
    for content in ("", "{}", '{"format":"other","checkpoints":{}}', under_another_name):
        state.write_text(content)
        with pytest.raises(StateUnusable):
            Witness(WITNESS, KNOWN, state, lambda: 1)
