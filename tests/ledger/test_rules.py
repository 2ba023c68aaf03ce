"""Examples of the ledger's rules."""

import hashlib
import json

import msgspec
import pytest

from ousel.kernel.errors import Refusal
from ousel.ledger.refusals import (
    AccountFrozen,
    AccountNotFound,
    BalanceLimitReached,
    EntryAheadOfClock,
    IdempotencyConflict,
    InsufficientBalance,
    SameAccount,
)
from ousel.ledger.rules import (
    AHEAD_MICROS_MAX,
    BALANCE_MICROS_MAX,
    FIRST_HASH,
    SYSTEM_ACCOUNT_ID,
    Entry,
    Movement,
    Outcome,
    Posting,
    Refused,
    Replay,
    Status,
    decide,
    entry_hash,
    may_change_account,
)
from tests.ledger.examples import NOW, MemoryLedger, account, posting, refusals, system


def refusal(outcome: Outcome) -> Refusal:
    assert isinstance(outcome, Refused)
    return outcome.refusal


def moved(outcome: Outcome) -> Movement:
    assert isinstance(outcome, Movement)
    return outcome


def canonical_hash(previous: str, entry: Entry) -> str:
    """Return the hash as the documentation describes it, computed without Ousel's code."""
    fields = list(msgspec.structs.astuple(entry))[:-1]
    text = json.dumps(fields, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256((previous + text).encode()).hexdigest()


def test_a_posting_debits_one_account_and_credits_another() -> None:
    """The two entries add up to zero, and each has its account's next number and balance."""
    ledger = MemoryLedger(account("ada", 100), account("bob", 5))

    movement = moved(ledger.decide(posting("ada", "@bob", 30, note="Tea", key="k"))[0])

    assert movement.debit.amount + movement.credit.amount == 0
    assert ledger.balances() == {"ada": 70, "bob": 35}
    debit, credit = movement.debit, movement.credit
    assert (debit.account_id, debit.counterparty_id) == ("ada", "bob")
    assert (credit.account_id, credit.counterparty_id) == ("bob", "ada")
    assert (debit.sequence, debit.amount, debit.balance_after) == (1, -30, 70)
    assert (credit.sequence, credit.amount, credit.balance_after) == (1, 30, 35)
    assert (debit.idempotency_key, credit.idempotency_key) == ("k", None)
    for entry in (debit, credit):
        assert (entry.note, entry.kind, entry.created_at) == ("Tea", "transfer", NOW)
        assert entry.transfer_id == debit.transfer_id


def test_hashes_chain_each_entry_to_the_one_before() -> None:
    """An entry's hash covers the previous hash and every field of the entry."""
    ledger = MemoryLedger(account("ada", 100), account("bob"))

    outcomes = ledger.decide(
        posting("ada", "@bob", 1, note='Ünï ☃ "quoted" \\ \n', key="k"), posting("ada", "@bob", 2)
    )

    first, second = (moved(outcome).debit for outcome in outcomes)
    assert first.hash == canonical_hash(FIRST_HASH, first) == entry_hash(FIRST_HASH, first)
    assert second.hash == canonical_hash(first.hash, second) == entry_hash(first.hash, second)
    assert ledger.accounts["ada"].head_hash == second.hash


@pytest.mark.parametrize("field", [name for name in Entry.__struct_fields__ if name != "hash"])
def test_no_field_can_change_without_its_hash(field: str) -> None:
    """Each field is covered by the hash."""
    entry = moved(
        MemoryLedger(account("ada", 9), account("bob")).decide(posting("ada", "@bob"))[0]
    ).debit
    value = getattr(entry, field)
    changed = msgspec.structs.replace(
        entry, **{field: value + 1 if isinstance(value, int) else f"{value}x"}
    )

    assert entry_hash(FIRST_HASH, changed) != entry.hash
    assert entry_hash("1" * 64, entry) != entry.hash


def test_the_same_key_and_request_is_the_first_movement_again() -> None:
    """A replay returns the sender's first entry and moves nothing."""
    ledger = MemoryLedger(account("ada", 100), account("bob"))
    first = moved(ledger.decide(posting("ada", "@bob", 30, key="k", note="Tea"))[0])

    later = ledger.decide(
        posting("ada", "@bob", 30, key="k", note="Tea"),
        posting("ada", "@bob", 30, key="k", note="Tea"),
    )

    assert later == [Replay(first.debit), Replay(first.debit)]
    assert ledger.balances() == {"ada": 70, "bob": 30}


def test_a_key_is_known_within_its_own_batch() -> None:
    """Of several postings with the same key in one batch, exactly one moves money."""
    ledger = MemoryLedger(account("ada", 100), account("bob"))

    outcomes = ledger.decide(*(posting("ada", "@bob", 30, key="k") for _ in range(5)))

    first = moved(outcomes[0])
    assert outcomes[1:] == [Replay(first.debit)] * 4
    assert ledger.balances() == {"ada": 70, "bob": 30}


@pytest.mark.parametrize(
    "other",
    [
        posting("ada", "@bob", 31, key="k", note="Tea"),
        posting("ada", "@eve", 30, key="k", note="Tea"),
        posting("ada", "@bob", 30, key="k", note="tea"),
        posting("ada", "@bob", 30, key="k"),
        posting("ada", "@bob", 30, key="k", note="Tea", kind="charge_payment"),
        posting("ada", "@nobody", 30, key="k", note="Tea"),
        posting("ada", "@ada", 30, key="k", note="Tea"),
    ],
    ids=["amount", "recipient", "note", "no note", "kind", "unknown recipient", "oneself"],
)
def test_the_same_key_with_another_request_names_the_first_transfer(other: Posting) -> None:
    """A conflict names the transfer that the key belongs to, and nothing moves."""
    ledger = MemoryLedger(account("ada", 100), account("bob"), account("eve"))
    first = moved(ledger.decide(posting("ada", "@bob", 30, key="k", note="Tea"))[0])

    conflict = refusal(ledger.decide(other)[0])

    assert isinstance(conflict, IdempotencyConflict)
    assert conflict.members == {"transfer_id": first.debit.transfer_id}
    assert conflict.detail == (
        f"This idempotency key was used for transfer {first.debit.transfer_id}, "
        "which has another recipient, amount or note."
    )
    assert conflict.param == "idempotency_key"
    assert ledger.balances() == {"ada": 70, "bob": 30, "eve": 0}


def test_a_key_belongs_to_its_sender() -> None:
    """Two senders may use the same key independently."""
    ledger = MemoryLedger(account("ada", 100), account("bob", 100))

    outcomes = ledger.decide(posting("ada", "@bob", 1, key="k"), posting("bob", "@ada", 2, key="k"))

    assert refusals(outcomes) == [None, None]
    assert ledger.balances() == {"ada": 101, "bob": 99}


def test_without_a_key_each_posting_moves_money() -> None:
    """The same request twice without a key moves twice; an empty key is a key."""
    ledger = MemoryLedger(account("ada", 100), account("bob"))

    outcomes = ledger.decide(
        posting("ada", "@bob", 1),
        posting("ada", "@bob", 1, key=""),
        posting("ada", "@bob", 1),
        posting("ada", "@bob", 1, key=""),
    )

    assert [type(outcome) for outcome in outcomes] == [Movement, Movement, Movement, Replay]
    assert ledger.balances() == {"ada": 97, "bob": 3}


def test_a_refused_posting_does_not_bind_its_key() -> None:
    """After a refusal the same key may be used again, for anything."""
    ledger = MemoryLedger(account("ada", 10), account("bob"))

    outcomes = ledger.decide(
        posting("ada", "@bob", 11, key="k"), posting("ada", "@bob", 10, key="k")
    )

    assert refusals(outcomes) == [InsufficientBalance, None]


def test_a_balance_never_goes_below_zero() -> None:
    """The whole balance may be sent, and not a millionth more; the refusal names both amounts."""
    ledger = MemoryLedger(account("ada", 1_500_000), account("bob"))

    short, exact, empty = ledger.decide(
        posting("ada", "@bob", 1_500_001),
        posting("ada", "@bob", 1_500_000),
        posting("ada", "@bob", 1),
    )

    assert isinstance(refusal(short), InsufficientBalance)
    assert refusal(short).detail == "The balance is 1.50 and the amount is 1.500001."
    assert refusal(short).param == "amount"
    assert moved(exact).debit.balance_after == 0
    assert isinstance(refusal(empty), InsufficientBalance)


def test_money_received_in_a_batch_can_be_sent_on_in_it() -> None:
    """Each posting is decided on the balances that the previous one has left."""
    ledger = MemoryLedger(account("ada", 10), account("bob"), account("eve"))

    outcomes = ledger.decide(
        posting("bob", "@eve", 10), posting("ada", "@bob", 10), posting("bob", "@eve", 10)
    )

    assert refusals(outcomes) == [InsufficientBalance, None, None]
    assert ledger.balances() == {"ada": 0, "bob": 0, "eve": 10}


def test_only_the_system_account_may_owe() -> None:
    """Money is issued from it down to a limit."""
    ledger = MemoryLedger(system(-BALANCE_MICROS_MAX + 10), account("ada"))

    outcomes = ledger.decide(
        posting(SYSTEM_ACCOUNT_ID, "@ada", 11, kind="funding"),
        posting(SYSTEM_ACCOUNT_ID, "@ada", 10, kind="funding"),
        posting(SYSTEM_ACCOUNT_ID, "@ada", 1, kind="funding"),
    )

    assert refusals(outcomes) == [InsufficientBalance, None, InsufficientBalance]
    assert ledger.balances() == {SYSTEM_ACCOUNT_ID: -BALANCE_MICROS_MAX, "ada": 10}


def test_a_balance_has_an_upper_limit() -> None:
    """A recipient's balance may reach the limit, but not exceed it."""
    ledger = MemoryLedger(account("ada", 100), account("bob", BALANCE_MICROS_MAX - 10))

    outcomes = ledger.decide(posting("ada", "@bob", 11), posting("ada", "@bob", 10))

    assert refusals(outcomes) == [BalanceLimitReached, None]
    assert refusal(outcomes[0]).param == "amount"
    assert refusal(outcomes[0]).detail == "The recipient's balance would be too large."
    assert ledger.balances() == {"ada": 90, "bob": BALANCE_MICROS_MAX}


def test_nobody_can_send_money_to_themselves() -> None:
    """The recipient must be another account."""
    ledger = MemoryLedger(account("ada", 100))

    outcome = ledger.decide(posting("ada", "@ada"))[0]

    assert isinstance(refusal(outcome), SameAccount)
    assert refusal(outcome).param == "to"
    assert refusal(outcome).detail == "The recipient must not be the sender."
    assert ledger.balances() == {"ada": 100}


def test_an_unknown_recipient_is_not_found() -> None:
    """An identifier that no account has is refused, and the refusal names the field."""
    outcome = MemoryLedger(account("ada", 100)).decide(posting("ada", "@nobody"))[0]

    assert isinstance(refusal(outcome), AccountNotFound)
    assert refusal(outcome).param == "to"
    assert refusal(outcome).detail == "No account has the identifier in `to`."


@pytest.mark.parametrize(
    ("sender", "recipient", "param"),
    [("frozen", "active", None), ("active", "frozen", "to"), ("frozen", "frozen", None)],
)
def test_a_frozen_account_neither_sends_nor_receives(
    sender: Status, recipient: Status, param: str | None
) -> None:
    """The refusal says which of the two accounts is frozen."""
    ledger = MemoryLedger(account("ada", 100, status=sender), account("bob", status=recipient))

    outcome = ledger.decide(posting("ada", "@bob", 1_000))[0]

    assert isinstance(refusal(outcome), AccountFrozen)
    assert refusal(outcome).param == param
    whose = "recipient" if param else "sender"
    assert refusal(outcome).detail == f"The {whose}'s account is frozen."
    assert ledger.balances() == {"ada": 100, "bob": 0}


def test_a_replay_is_answered_even_if_the_account_is_frozen_or_empty() -> None:
    """A replay moves nothing, so neither matters."""
    ledger = MemoryLedger(account("ada", 30), account("bob"))
    first = moved(ledger.decide(posting("ada", "@bob", 30, key="k"))[0])
    ledger.accounts["ada"].status = "frozen"

    assert ledger.decide(posting("ada", "@bob", 30, key="k")) == [Replay(first.debit)]


def test_entries_never_go_back_in_time_if_the_clock_does() -> None:
    """An entry is never dated before the last entry of either account."""
    ledger = MemoryLedger(
        account("ada", 100, updated_at=NOW + 50),
        account("bob", updated_at=NOW),
        account("eve", updated_at=NOW + 70),
    )

    outcomes = ledger.decide(posting("ada", "@bob"), posting("bob", "@eve"), now=NOW - 1_000)
    later = ledger.decide(posting("eve", "@ada"), now=NOW + 71)

    dates = [moved(outcome).debit.created_at for outcome in outcomes + later]
    assert dates == [NOW + 50, NOW + 70, NOW + 71]
    assert {each.updated_at for each in ledger.accounts.values()} == {NOW + 70, NOW + 71}


def test_an_account_dated_more_than_a_minute_ahead_moves_nothing() -> None:
    """Neither as sender nor as recipient; the others go on, and so does it once time has passed."""
    ahead = NOW + AHEAD_MICROS_MAX + 1
    ledger = MemoryLedger(
        account("ada", 100), account("bob"), account("eve", 100, updated_at=ahead)
    )
    postings = [posting("ada", "@eve"), posting("eve", "@ada"), posting("ada", "@bob")]

    outcomes = ledger.decide(*postings)

    assert refusals(outcomes) == [EntryAheadOfClock, EntryAheadOfClock, None]
    for outcome, role in zip(outcomes, ("recipient", "sender"), strict=False):
        assert refusal(outcome).detail == (
            f"The last entry of the {role}'s account is dated in the future."
        )
        assert refusal(outcome).retry_after_seconds == 60
    assert refusals(ledger.decide(*postings[:2], now=NOW + 1)) == [None, None]
    assert ledger.accounts["eve"].updated_at == ahead


def test_a_posting_may_name_the_recipient_by_its_account_id() -> None:
    """Charge payments and funding know the account's id; no identifier is looked up for them."""
    ledger = MemoryLedger(account("ada", 10), account("bob"))
    by_id = msgspec.structs.replace(
        posting("ada", "@nobody", 4), credit_identifier=None, credit_account_id="bob"
    )

    assert isinstance(ledger.decide(by_id)[0], Movement)
    assert ledger.balances() == {"ada": 6, "bob": 4}


def test_no_charge_is_closed_unless_the_caller_says_so() -> None:
    """A posting that pays a charge moves money if no closed charges are given."""
    accounts = {"ada": account("ada", 10), "bob": account("bob")}
    payment = posting("ada", "@bob", 4, kind="charge_payment", charge_id="ch_1")

    outcomes = decide([payment], accounts, {"@bob": "bob"}, {}, NOW)

    assert isinstance(outcomes[0], Movement)


def test_only_an_email_may_later_name_another_account() -> None:
    """Usernames and account numbers keep their account for ever."""
    emails = ["ada@example.com", "a@example.com"]
    names = ["@ada", "OU302849912558", *emails]

    assert [name for name in names if may_change_account(name)] == emails
