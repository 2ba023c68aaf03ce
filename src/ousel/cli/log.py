"""`ousel log`: manage the key of your own log; witness or audit another log."""

import fcntl
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from ousel.cli.command_group import command_group
from ousel.cli.console import (
    JsonOption,
    check_host,
    clean_up_on_signal,
    fail,
    fail_to_listen,
    print_error,
    show,
)
from ousel.cli.log_keys import keys
from ousel.cli.receipts import KeyOption, parse_log_keys, parse_witness_keys
from ousel.kernel.files import read_if_there, write_durably
from ousel.kernel.settings import PORT_MAX
from ousel.sealed_log.audit import AuditFailed, Auditor, AuditResult, LogInconsistent
from ousel.sealed_log.notes import (
    COSIGNATURE,
    NoteRefused,
    SigningKey,
    new_signing_key,
    parse_signing_key,
)
from ousel.sealed_log.remote import RemoteLog, RemoteUnreachable
from ousel.sealed_log.witness_server import StateUnusable, Witness, serve_witness

WITNESS_PORT_DEFAULT: Final = 8100
EVERY_SECONDS_MAX: Final = 86_400.0

log = command_group("Create the key that signs your sealed log; audit a log, or run a witness.")
log.add_typer(keys, name="key")


@log.callback()
def group() -> None:
    """Create the key that signs your sealed log; audit a log, or run a witness."""


@log.command()
def witness(
    *,
    log_key: Annotated[
        list[str],
        typer.Option(metavar="VKEY", help="The verifier key of a log to watch, from its /log/key."),
    ],
    name: Annotated[
        str, typer.Option(help="The name of this witness, such as witness.example.com/one.")
    ],
    folder: Annotated[
        Path, typer.Option(help="Keep the private key and the last checkpoints in this folder.")
    ] = Path("ousel-witness"),
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(help="The port to listen on.", min=1, max=PORT_MAX)
    ] = WITNESS_PORT_DEFAULT,
    as_json: JsonOption = False,
) -> None:
    """Run a witness: it cosigns each checkpoint that extends what it has cosigned before."""
    log_keys = parse_log_keys(log_key)
    check_host(host)
    folder.mkdir(parents=True, exist_ok=True)
    with _only_process_in(folder):
        key = _witness_key(folder / "key", name)
        try:
            own_witness = Witness(key, log_keys, folder / "state.json", lambda: int(time.time()))
        except StateUnusable as error:
            fail(str(error))
        try:
            server = serve_witness(own_witness, host, port)
        except OSError as error:
            fail_to_listen(host, port, error)
        with clean_up_on_signal(), server:
            watched = ", ".join(each.name for each in log_keys)
            address = f"http://{host}:{port}"
            record = {"key": str(key.verifier), "listening": address, "watching": watched}
            show(record, as_json=as_json)
            sys.stdout.flush()
            server.serve_forever()


@log.command()
def audit(
    url: Annotated[str, typer.Argument(help="The address of the log, such as https://…/log.")],
    *,
    key: KeyOption,
    state: Annotated[
        Path, typer.Option(metavar="FILE", help="Keep the last checkpoint in this file.")
    ] = Path("ousel-audit.checkpoint"),
    witness: Annotated[
        list[str] | None,
        typer.Option(metavar="VKEY", help="The verifier key of a witness that you trust."),
    ] = None,
    every: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            help="Audit again and again, at this interval.",
            min=1.0,
            max=EVERY_SECONDS_MAX,
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Check that a log extends what it showed the last time; save the evidence if it does not."""
    auditor = Auditor(parse_log_keys(key), state, parse_witness_keys(witness))
    remote = RemoteLog(url)
    with clean_up_on_signal():
        while True:
            try:
                show(_record(auditor.audit(remote)), as_json=as_json)
            except LogInconsistent as error:
                fail(f"{url} is inconsistent: {error}")
            except (AuditFailed, RemoteUnreachable) as error:
                if every is None:
                    fail(f"{url} was not audited: {error}")
                print_error(f"{url} was not audited: {error}")
            if every is None:
                return
            sys.stdout.flush()
            time.sleep(every)


def _record(audited: AuditResult) -> dict[str, Any]:
    before = audited.previous
    return {
        "result": "the log is consistent",
        "origin": audited.checkpoint.origin,
        "size": audited.checkpoint.size,
        "root": audited.checkpoint.root.hex(),
        "since": None if before is None else before.size,
        "witnesses": ", ".join(signature.key.name for signature in audited.cosignatures),
    }


@contextmanager
def _only_process_in(folder: Path) -> Iterator[None]:
    """Hold a lock on the folder: two witnesses with one state could contradict each other."""
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            fail(f"another witness uses the folder {folder}")
        yield


def _witness_key(path: Path, name: str) -> SigningKey:
    """Return the key in this file, or a new one."""
    content = read_if_there(path)
    try:
        if content is None:
            key = new_signing_key(name, COSIGNATURE)
            write_durably(path, f"{key.private_text}\n".encode())
            return key
        key = parse_signing_key(content.decode())
    except (NoteRefused, UnicodeDecodeError) as error:
        fail(f"{path} or the name cannot be used: {error}")
    if key.verifier.name != name:
        fail(
            f"the witness in {path.parent} is {key.verifier.name}: use this name or another folder"
        )
    return key
