"""What all commands share: their options, printing, and reporting failures.

Every command imports this module, so it imports Rich only when something is printed with it.
"""

import errno
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn

import typer

from ousel.kernel.errors import DatabaseUnavailable, OperatorError, Refusal, first_cause

if TYPE_CHECKING:
    from rich.console import Console

_ENDING_SIGNALS: Final = (signal.SIGTERM, signal.SIGHUP)

DatabaseOption = Annotated[
    str | None,
    typer.Option(
        "--database",
        metavar="URL",
        help="postgresql://… or the path of an SQLite file; default: OUSEL_DATABASE_URL.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


def error_console() -> "Console":
    """Return the console that prints on standard error."""
    from rich.console import Console

    return Console(stderr=True)


@contextmanager
def clean_up_on_signal() -> Iterator[None]:
    """Turn signals that end the process into SystemExit, so that the block can clean up."""

    def exit_command(number: int, _: object) -> NoReturn:
        raise SystemExit(128 + number)  # the exit code that shells use

    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread can handle signals
        return
    unhandled = [each for each in _ENDING_SIGNALS if signal.getsignal(each) is signal.SIG_DFL]
    for number in unhandled:
        signal.signal(number, exit_command)
    try:
        yield
    finally:
        for number in unhandled:
            signal.signal(number, signal.SIG_DFL)


def show(record: dict[str, Any], *, as_json: bool) -> None:
    """Print one record."""
    if as_json:
        print_json(record)
        return
    from ousel.cli.tables import print_record

    print_record(record)


def show_list(records: Sequence[dict[str, Any]], *, as_json: bool) -> None:
    """Print a list of records."""
    if as_json:
        print_json(records)
        return
    from ousel.cli.tables import print_records

    print_records(records)


def print_json(value: Any) -> None:
    """Print a value as JSON on standard output."""
    import msgspec

    sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n")
    sys.stdout.buffer.flush()


def fail(reason: str) -> NoReturn:
    """End the command with one clear line on standard error."""
    print_error(reason)
    raise typer.Exit(1)


def check_host(host: str) -> None:
    """End the command if there is no address to listen on."""
    if not host:  # perhaps from an unset variable; it would mean every address
        fail("there is no address to listen on; for all addresses, use 0.0.0.0")


def fail_to_listen(host: str, port: int, error: OSError, option: str = "--port") -> NoReturn:
    """End the command, because it cannot listen on this address; name the option of the port."""
    taken = error.errno == errno.EADDRINUSE
    reason = f"the port is taken; choose another with {option}" if taken else error.strerror
    fail(f"cannot listen on {host}, port {port}: {reason}")


def run_commands(commands: Callable[..., int | None]) -> int:
    """Run a command and return its exit code; report failures in one line."""
    try:
        _check_arguments(sys.argv)
        exit_code = commands(standalone_mode=False)
    except typer.TyperException as error:
        _explain_usage(error)
        return error.exit_code
    except DatabaseUnavailable as refusal:
        print_error(_with_words_of_driver(refusal))
        return 1
    except Refusal as refusal:
        print_error(refusal.detail)
        return 1
    except OperatorError as error:
        print_error(str(error))
        return 1
    except OSError as error:  # such as a full disk or a missing folder
        discard_output()
        reason = error.strerror or str(error)
        print_error(reason if error.filename is None else f"{error.filename}: {reason}")
        return 1
    return exit_code or 0


def _with_words_of_driver(refusal: DatabaseUnavailable) -> str:
    """Return why the database is not available, also in the words of its driver."""
    words = str(first_cause(refusal)).partition("\n")[0]
    return refusal.detail if words in refusal.detail else f"{refusal.detail.rstrip('.')}: {words}."


def discard_output() -> None:
    """Discard what is still to be printed: nobody reads it, or it cannot be written."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _check_arguments(arguments: Sequence[str]) -> None:
    """Refuse arguments that are not UTF-8, before they reach the ledger."""
    try:
        "".join(arguments).encode()
    except UnicodeEncodeError:
        raise OperatorError("the arguments must be text in UTF-8") from None


def _explain_usage(error: typer.TyperException) -> None:
    """Print what is wrong with the command line."""
    context = getattr(error, "ctx", None)
    command = "ousel" if context is None else context.command_path
    print_error(f"{error.format_message().rstrip('.')} (see '{command} --help')")


def print_error(reason: str) -> None:
    """Print one line on standard error."""
    line = f"ousel: {printable(reason)}"
    error_console().print(line, markup=False, highlight=False, soft_wrap=True)


def printable(text: str) -> str:
    """Escape line feeds and control characters, with which others could forge lines of output."""
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in text
    )
