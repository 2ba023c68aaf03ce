"""The places of movements: a batch is stored as one text, from which each place can be read."""

from hypothesis import given
from hypothesis import strategies as st

from ousel.ledger.places import Place, count_places, decode_places, encode_places
from ousel.ledger.rules import Entry, Movement

PLACES = [Place("acct_ada", 12, "acct_bob", 3), Place("acct_bob", 4, "acct_ada", 13)]
STORED = "acct_ada:12:acct_bob:3 acct_bob:4:acct_ada:13"

account_ids = st.text("abc123", min_size=1).map("acct_".__add__)
sequences = st.integers(1, 2**63 - 1)
batches = st.lists(st.builds(Place, account_ids, sequences, account_ids, sequences), min_size=1)


def movement(place: Place) -> Movement:
    """Return a movement at this place."""
    payer, debited, payee, credited = place
    debit = Entry(payer, debited, "tr_1", "transfer", -1, 0, payee, None, None, None, 1, "")
    credit = Entry(payee, credited, "tr_1", "transfer", 1, 1, payer, None, None, None, 1, "")
    return Movement(debit, credit)


def test_texts_of_older_versions_can_be_read() -> None:
    """The text is stored in the database, so it stays the same."""
    assert encode_places(map(movement, PLACES)) == STORED
    assert decode_places(STORED) == PLACES
    assert count_places(STORED) == 2


@given(places=batches)
def test_the_text_of_a_batch_names_all_its_places(places: list[Place]) -> None:
    """They are in the order of the movements, and can be counted without reading them."""
    text = encode_places(map(movement, places))

    assert decode_places(text) == places
    assert count_places(text) == len(places)
