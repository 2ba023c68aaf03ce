"""`ousel receipt check`: check a receipt offline."""

from pathlib import Path
from typing import Annotated

import msgspec
import typer

from ousel.cli.command_group import command_group
from ousel.cli.console import JsonOption, fail, print_json, printable
from ousel.kernel.money import json_from_micros
from ousel.sealed_log.notes import (
    COSIGNATURE,
    ED25519,
    NoteRefused,
    VerifierKey,
    parse_verifier_key,
)
from ousel.sealed_log.receipt_check import RECEIPT_BYTES_MAX, CheckedReceipt, check_receipt
from ousel.sealed_log.receipt_sentences import (
    proven_sentences,
    signed_names,
    unproven_sentences,
)
from ousel.sealed_log.receipts import ReceiptRefused

receipts = command_group("Check receipts.")

KeyOption = Annotated[
    list[str],
    typer.Option(
        "--key",
        metavar="VKEY",
        help="The verifier key of the log, from its /log/key; give old keys too if it had any.",
    ),
]


@receipts.callback()
def group() -> None:
    """Check receipts."""


@receipts.command()
def check(
    file: Annotated[Path, typer.Argument(help="The receipt: JSON, or a tlog-proof text.")],
    *,
    key: KeyOption,
    witness: Annotated[
        list[str] | None,
        typer.Option(metavar="VKEY", help="The verifier key of a witness that you trust."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Check a receipt without the network, and say what it proves and what it does not."""
    with file.open("rb") as opened:
        content = opened.read(RECEIPT_BYTES_MAX + 1)
    keys, witness_keys = parse_log_keys(key), parse_witness_keys(witness)
    try:
        checked = check_receipt(content, keys, witness_keys)
    except ReceiptRefused as error:
        fail(f"{file}: {error}")
    if as_json:
        print_json(_record(checked))
        return
    typer.echo(f"The receipt is genuine. Fingerprint: {checked.fingerprint}")
    _print_list("Proven", proven_sentences(checked))
    _print_list("Stated by the operator, not proven by the log", signed_names(checked))
    _print_list("Not proven", unproven_sentences(checked))


def parse_log_keys(texts: list[str]) -> list[VerifierKey]:
    """Return the verifier keys of these logs, or end the command."""
    found = _parse_keys(texts)
    for key in found:
        if key.type != ED25519:
            fail(f"{key} is the key of a witness, not of a log")
    return found


def parse_witness_keys(texts: list[str] | None) -> list[VerifierKey]:
    """Return the verifier keys of these witnesses, or end the command."""
    found = _parse_keys(texts or [])
    for key in found:
        if key.type != COSIGNATURE:
            fail(f"{key} is the key of a log, not of a witness")
    return found


def _parse_keys(texts: list[str]) -> list[VerifierKey]:
    try:
        return [parse_verifier_key(text) for text in texts]
    except NoteRefused as error:
        fail(str(error))


def _print_list(heading: str, sentences: list[str]) -> None:
    if sentences:
        typer.echo(f"\n{heading}:")
    for sentence in sentences:
        typer.echo(f"- {printable(sentence)}")


def _record(checked: CheckedReceipt) -> dict[str, object]:
    own = checked.own_entry
    return {
        "result": "the receipt is genuine",
        "fingerprint": checked.fingerprint,
        "movement": checked.movement,
        "origin": checked.checkpoint.origin,
        "index": checked.index,
        "size": checked.checkpoint.size,
        "entry": None
        if own is None
        else {
            "account_id": own.account_id,
            "sequence": own.sequence,
            "balance_after": msgspec.Raw(json_from_micros(own.balance_after).encode()),
        },
        "witnesses": [signature.key.name for signature in checked.cosignatures],
        "proven": proven_sentences(checked),
        "signed_names": signed_names(checked),
        "not_proven": unproven_sentences(checked),
    }
