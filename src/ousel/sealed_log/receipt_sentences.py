"""What a receipt proves and what it does not, in words for people."""

from ousel.kernel.clock import MICROS_PER_SECOND, timestamp
from ousel.kernel.money import json_from_micros
from ousel.sealed_log.merkle import leaf_count
from ousel.sealed_log.receipt_check import CheckedReceipt


def proven_sentences(receipt: CheckedReceipt) -> list[str]:
    """Return sentences about what the receipt proves, the most important first."""
    leaf, checkpoint = receipt.movement, receipt.checkpoint
    note = "without a note" if leaf.note is None else f"with the note “{leaf.note}”"
    charge = f", for charge {leaf.charge_id}" if leaf.charge_id else ""
    moved = (
        f"{leaf.amount} {leaf.currency} moved from account {leaf.from_} to account {leaf.to},"
        f" dated {leaf.created_at}, {note}: {leaf.kind} {leaf.id}{charge}."
    )
    sealed = (
        f"The log {checkpoint.origin} has this movement as leaf {receipt.index}. The log had"
        f" {leaf_count(checkpoint.size)} when it signed this. It cannot change or remove the leaf"
        " without contradicting its signature."
    )
    sentences = [moved, sealed]
    if receipt.own_entry is not None:
        own = receipt.own_entry
        sentences.append(
            f"The movement is entry {own.sequence} of account {own.account_id}, and the balance"
            f" after it was {json_from_micros(own.balance_after)} {leaf.currency}. The entry's hash"
            " also fixes every earlier entry of the account."
        )
    sentences += [
        f"The witness {signature.key.name} saw this state of the log at"
        f" {_moment(signature.signed_at or 0)}. This state extended"
        " everything that the witness had seen before."
        for signature in receipt.cosignatures
    ]
    return sentences


def _moment(seconds: int) -> str:
    """Return the time at which a witness signed, even if its clock shows no date at all."""
    try:
        return timestamp(seconds * MICROS_PER_SECOND)
    except (OverflowError, ValueError):
        return f"second {seconds} of Unix time"


def signed_names(receipt: CheckedReceipt) -> list[str]:
    """Return sentences about the names of the accounts, which only the operator states."""
    return [
        f"Account {each.account_id} is @{each.username}, account number {each.account_number},"
        f" “{each.display_name}”."
        for each in receipt.names
    ]


def unproven_sentences(receipt: CheckedReceipt) -> list[str]:
    """Return sentences about what a reader might wrongly take for proven."""
    sentences = [
        "Who the people behind the accounts are: the operator states the names.",
        "That the money was not sent back: that would be another movement, with its own receipt.",
        "That the movement happened at this very time: the operator's clock dated it.",
    ]
    if not receipt.cosignatures:
        sentences.insert(
            0,
            "That the operator shows everyone the same log: no witness whose key was given has"
            " cosigned it. Compare the checkpoint with someone else's, or give the key of a witness"
            " to 'ousel receipt check --witness'.",
        )
    if receipt.own_entry is None:
        sentences.append("The balance of either account: this receipt does not show it.")
    if receipt.unknown_signatures:
        sentences.append(
            f"What other signatures on the checkpoint say ({receipt.unknown_signatures} in all):"
            " their keys were not given."
        )
    return sentences
