"""Properties of the ledger's rules, checked on random histories."""

from hypothesis import given
from hypothesis import strategies as st

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
    entry_hash,
)
from tests.ledger.examples import NOW, MemoryLedger, account, posting, system

NAMES = ("ada", "bob", "eve", "ice", "big")
RECIPIENTS = (*NAMES, "nobody", SYSTEM_ACCOUNT_ID)

postings = st.builds(
    lambda sender, to, amount, key, note: posting(sender, f"@{to}", amount, key=key, note=note),
    st.sampled_from((*NAMES, SYSTEM_ACCOUNT_ID)),
    st.sampled_from(RECIPIENTS),
    st.one_of(st.integers(1, 30), st.integers(1, 10**15)),
    st.sampled_from((None, None, "k1", "k2", "k3")),
    st.sampled_from((None, "Tea")),
)
redemptions = st.builds(
    lambda sender, amount, key: posting(
        sender, f"@{SYSTEM_ACCOUNT_ID}", amount, key=key, kind="redemption"
    ),
    st.sampled_from(NAMES),
    st.one_of(st.integers(1, 30), st.integers(1, 10**15)),
    st.sampled_from((None, "k1", "k2")),
)
drifts = st.one_of(st.integers(-3, 3), st.integers(-2 * AHEAD_MICROS_MAX, 2 * AHEAD_MICROS_MAX))
steps = st.tuples(st.lists(postings | redemptions, max_size=8), drifts)
histories = st.lists(steps, min_size=1, max_size=8)


def fresh_ledger() -> MemoryLedger:
    ledger = MemoryLedger(
        account("ada", 50),
        account("bob", 10),
        account("eve"),
        account("ice", 5, status="frozen"),
        account("big", BALANCE_MICROS_MAX - 100),
    )
    owed = sum(ledger.balances().values())
    ledger.accounts[SYSTEM_ACCOUNT_ID] = system(-owed)
    return ledger


def decide_history(
    history: list[tuple[list[Posting], int]],
) -> tuple[MemoryLedger, list[tuple[Posting, Outcome]]]:
    """Decide each batch in turn, with a clock that may go back."""
    ledger = fresh_ledger()
    now = NOW
    outcomes: list[tuple[Posting, Outcome]] = []
    for batch, drift in history:
        now += drift
        outcomes += zip(batch, ledger.decide(*batch, now=now), strict=True)
    return ledger, outcomes


def entries_by_account(outcomes: list[tuple[Posting, Outcome]]) -> dict[str, list[Entry]]:
    written: dict[str, list[Entry]] = {}
    for _, outcome in outcomes:
        if isinstance(outcome, Movement):
            for entry in (outcome.debit, outcome.credit):
                written.setdefault(entry.account_id, []).append(entry)
    return written


@given(histories)
def test_money_is_neither_made_nor_lost(history: list[tuple[list[Posting], int]]) -> None:
    """The balances always add up to zero, and each is the sum of its entries."""
    start = fresh_ledger().balances()
    ledger, outcomes = decide_history(history)

    assert sum(ledger.balances().values()) == 0
    for name, entries in entries_by_account(outcomes).items():
        assert ledger.balances()[name] == start[name] + sum(entry.amount for entry in entries)
        assert entries[-1].balance_after == ledger.balances()[name]


@given(histories)
def test_only_the_system_owes_and_nobody_exceeds_the_limit(
    history: list[tuple[list[Posting], int]],
) -> None:
    """This is true after every entry, not only at the end."""
    _, outcomes = decide_history(history)

    for name, entries in entries_by_account(outcomes).items():
        for entry in entries:
            assert -BALANCE_MICROS_MAX <= entry.balance_after <= BALANCE_MICROS_MAX
            assert entry.balance_after >= 0 or name == SYSTEM_ACCOUNT_ID


@given(histories)
def test_a_redemption_takes_at_most_what_the_account_has(
    history: list[tuple[list[Posting], int]],
) -> None:
    """It removes its amount from circulation, once for each key, or it is refused."""
    ledger, now = fresh_ledger(), NOW
    for batch, drift in history:
        now += drift
        for each in batch:
            before = ledger.balances()
            [outcome] = ledger.decide(each, now=now)
            if each.kind != "redemption":
                continue
            moved = each.amount if isinstance(outcome, Movement) else 0
            assert ledger.balances() == before | {
                each.debit_account_id: before[each.debit_account_id] - moved,
                SYSTEM_ACCOUNT_ID: before[SYSTEM_ACCOUNT_ID] + moved,
            }
            assert moved <= before[each.debit_account_id]
            assert moved == 0 or ledger.accounts[each.debit_account_id].status == "active"


@given(histories)
def test_histories_have_no_gaps_and_never_go_back_in_time(
    history: list[tuple[list[Posting], int]],
) -> None:
    """Each account's entries are numbered from 1, chained by hashes, and in the order of time."""
    ledger, outcomes = decide_history(history)

    for name, entries in entries_by_account(outcomes).items():
        assert [entry.sequence for entry in entries] == list(range(1, len(entries) + 1))
        assert ledger.accounts[name].sequence == len(entries)
        previous = FIRST_HASH
        for entry in entries:
            assert entry.hash == entry_hash(previous, entry)
            previous = entry.hash
        assert ledger.accounts[name].head_hash == previous
        dates = [entry.created_at for entry in entries]
        assert dates == sorted(dates)


@given(histories)
def test_no_entry_is_dated_more_than_a_minute_ahead_of_the_clock(
    history: list[tuple[list[Posting], int]],
) -> None:
    """A posting is dated now or like the last entry; if that is too far ahead, it is refused."""
    ledger, now = fresh_ledger(), NOW
    for batch, drift in history:
        now += drift
        for each in batch:
            dates = {name: account.updated_at for name, account in ledger.accounts.items()}
            sides = [each.debit_account_id, (each.credit_identifier or "").removeprefix("@")]
            last = max(dates.get(name, 0) for name in sides)
            [outcome] = ledger.decide(each, now=now)
            if isinstance(outcome, Movement):
                assert outcome.debit.created_at == outcome.credit.created_at == max(now, last)
                assert last <= now + AHEAD_MICROS_MAX
            elif isinstance(outcome, Refused) and outcome.refusal.code == "entry_ahead_of_clock":
                assert last > now + AHEAD_MICROS_MAX
                assert outcome.refusal.status == 503


@given(histories)
def test_a_key_moves_once(history: list[tuple[list[Posting], int]]) -> None:
    """Each key of a sender moves money at most once, and every replay returns that entry."""
    _, outcomes = decide_history(history)
    firsts: dict[tuple[str, str], Entry] = {}

    for each, outcome in outcomes:
        if each.idempotency_key is None:
            assert not isinstance(outcome, Replay)
            continue
        key = (each.debit_account_id, each.idempotency_key)
        if isinstance(outcome, Movement):
            assert key not in firsts
            firsts[key] = outcome.debit
        elif isinstance(outcome, Replay):
            first = firsts[key]
            assert outcome.debit == first
            assert (first.amount, first.note) == (-each.amount, each.note)
            assert f"@{first.counterparty_id}" == each.credit_identifier
        elif isinstance(outcome, Refused) and outcome.refusal.code == "idempotency_conflict":
            assert outcome.refusal.members == {"transfer_id": firsts[key].transfer_id}


@given(histories)
def test_how_postings_are_batched_changes_nothing(
    history: list[tuple[list[Posting], int]],
) -> None:
    """The same postings have the same outcomes one by one and all in one batch."""
    postings_in_order = [each for batch, _ in history for each in batch]
    _, together = decide_history([(postings_in_order, 0)])
    _, apart = decide_history([([each], 0) for each in postings_in_order])

    assert [_comparable(outcome) for _, outcome in together] == [
        _comparable(outcome) for _, outcome in apart
    ]


def _comparable(outcome: Outcome) -> object:
    return outcome.refusal.detail if isinstance(outcome, Refused) else outcome
