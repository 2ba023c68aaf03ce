"""The places of movements: which entries of which accounts they consist of, as text.

The movements of a batch are stored as one short text, because a row for each of them would make
transfers slower.
"""

from collections.abc import Iterable
from typing import NamedTuple

from ousel.ledger.rules import Movement


class Place(NamedTuple):
    """Where the two entries of a movement are."""

    debit_account_id: str
    debit_sequence: int
    credit_account_id: str
    credit_sequence: int


def encode_places(movements: Iterable[Movement]) -> str:
    """Return the places of these movements as one text."""
    return " ".join(
        [
            f"{(debit := each.debit).account_id}:{debit.sequence}"
            f":{debit.counterparty_id}:{each.credit.sequence}"
            for each in movements
        ]
    )


def count_places(text: str) -> int:
    """Return how many movements a text names."""
    return text.count(" ") + 1


def decode_places(text: str) -> list[Place]:
    """Return the places that a text names."""
    places = [each.split(":") for each in text.split(" ")]
    return [
        Place(debit, int(first), credit, int(second)) for debit, first, credit, second in places
    ]
