"""A witness for somebody else's log, as in C2SP tlog-witness.

It cosigns each checkpoint that extends the last one that it has cosigned.
"""

import hashlib
import re
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final

import msgspec
from typing_extensions import override

from ousel.kernel.files import read_if_there, write_durably
from ousel.sealed_log.checkpoints import unverified_checkpoint
from ousel.sealed_log.notes import NoteRefused, SigningKey, VerifierKey
from ousel.sealed_log.witness_rules import (
    REQUEST_BYTES_MAX,
    RequestMalformed,
    WitnessAnswer,
    answer_request,
    origin_of,
    parse_request,
)

SOCKET_SECONDS_MAX: Final = 10.0
STATE_FORMAT: Final = "ousel-witness/v1"

_LENGTH: Final = re.compile(r"[0-9]{1,6}", re.ASCII)


class Witness:
    """Cosigns the checkpoints of some logs, and remembers the last one of each."""

    def __init__(
        self,
        key: SigningKey,
        log_keys: Sequence[VerifierKey],
        state: Path,
        clock_seconds: Callable[[], int],
    ) -> None:
        """Cosign with this key what these keys sign; keep the last checkpoints in this file."""
        self._key = key
        self._log_keys = log_keys
        self._state = state
        self._clock_seconds = clock_seconds
        self._lock = threading.Lock()
        content = read_if_there(state)
        self._notes: dict[str, str] = {} if content is None else _decode_state(content, state)

    def add_checkpoint(self, body: bytes) -> WitnessAnswer:
        """Answer a request, after the new state is on disk."""
        try:
            request = parse_request(body)
            origin = origin_of(request)
        except RequestMalformed as error:
            return WitnessAnswer(400, f"{error}\n")
        keys = [key for key in self._log_keys if key.name == origin]
        with self._lock:
            note = self._notes.get(origin)
            last = None if note is None else unverified_checkpoint(note)
            answer = answer_request(request, keys, last, self._key, self._clock_seconds())
            if answer.cosigned is not None:
                notes = self._notes | {origin: answer.cosigned}
                try:
                    write_durably(self._state, _encode_state(notes))
                except OSError as error:
                    why = f"the state of this witness cannot be written: {error.strerror}"
                    sys.stderr.write(f"ousel: {why}\n")  # the witness's operator must know it too
                    return WitnessAnswer(500, f"{why}; nothing is cosigned\n")
                self._notes = notes
        return answer

    def last_checkpoint(self, origin_hash: str) -> str | None:
        """Return the last cosigned checkpoint of the log whose name has this SHA-256, or None."""
        for origin, note in self._notes.items():
            if hashlib.sha256(origin.encode()).hexdigest() == origin_hash:
                return note
        return None


def serve_witness(witness: Witness, host: str, port: int) -> ThreadingHTTPServer:
    """Return a server that answers for this witness, once `serve_forever` is called."""

    class Handler(_WitnessHandler):
        pass

    Handler.witness = witness
    return ThreadingHTTPServer((host, port), Handler)


class _WitnessHandler(BaseHTTPRequestHandler):
    """Answers POST /add-checkpoint, and GET /<hash of the log's name>/checkpoint."""

    witness: Witness
    timeout = SOCKET_SECONDS_MAX
    server_version = "ousel-witness"
    sys_version = ""
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "")
        if not _LENGTH.fullmatch(length) or int(length) > REQUEST_BYTES_MAX:
            self.close_connection = True  # since the body is not read
            self._send(WitnessAnswer(400, "the request needs a length of at most 64 KiB\n"))
            return
        body = self.rfile.read(int(length))
        if self.path == "/add-checkpoint":
            self._send(self.witness.add_checkpoint(body))
        else:
            self._send(WitnessAnswer(404, "this witness accepts only POST /add-checkpoint\n"))

    def do_GET(self) -> None:
        name, _, rest = self.path.removeprefix("/").partition("/")
        note = self.witness.last_checkpoint(name) if rest == "checkpoint" else None
        if note is None:
            self._send(WitnessAnswer(404, "this witness has not cosigned such a log\n"))
        else:
            self._send(WitnessAnswer(200, note))

    def _send(self, answer: WitnessAnswer) -> None:
        content = answer.body.encode()
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    @override
    def log_message(self, format: str, *args: object) -> None:
        """Do not print requests."""


class StateUnusable(Exception):
    """The state file of a witness cannot be used; the message says why in one sentence."""


def _encode_state(notes: Mapping[str, str]) -> bytes:
    return msgspec.json.encode({"format": STATE_FORMAT, "checkpoints": notes})


class _State(msgspec.Struct, forbid_unknown_fields=True):
    format: str
    checkpoints: dict[str, str]


def _decode_state(content: bytes, path: Path) -> dict[str, str]:
    """Return the checkpoint of each log. A damaged file is an error, not an empty state."""
    try:
        state = msgspec.json.decode(content, type=_State)
        origins = [unverified_checkpoint(note).origin for note in state.checkpoints.values()]
    except (msgspec.DecodeError, NoteRefused):
        state, origins = None, []
    if state is None or state.format != STATE_FORMAT or origins != list(state.checkpoints):
        raise StateUnusable(f"{path} is not the state of a witness")
    return state.checkpoints
