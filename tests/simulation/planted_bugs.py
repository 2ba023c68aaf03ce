"""Bugs that are planted in the real code or the simulated parts: the simulation must find each."""

import sqlite3
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any

import msgspec
from typing_extensions import override

from ousel.charges import store
from ousel.charges.lifecycle import status_at
from ousel.charges.payment import ChargePayments
from ousel.charges.rules import Charge
from ousel.charges.service import ChargeService
from ousel.database import retries, sqlite
from ousel.database.clock import PostgresClock
from ousel.database.port import Transaction
from ousel.database.statements import Statement
from ousel.kernel.errors import DatabaseUnavailable, OutcomeUnknown
from ousel.ledger import batch, rules
from ousel.ledger.batch import PostingBatch
from ousel.ledger.interfaces import ChargeLocks
from ousel.ledger.rules import Movement, Posting
from ousel.oauth import store as oauth_store
from tests.simulation import network, postgres, statements
from tests.simulation.patches import Patch
from tests.simulation.server import PostgresServer


class PlantedBug(msgspec.Struct, frozen=True):
    """What is wrong, how to plant it, and a seed that is known to find it."""

    rule_broken: str
    patches: Callable[[], list[Patch]]
    first_seed: int = 1


def _date_by_the_host() -> list[Patch]:
    def host_time(self: PostgresClock, *_: int) -> int:
        return self._host_clock()

    return [(PostgresClock, "__call__", host_time), (PostgresClock, "from_database", host_time)]


def _forget_failed_flushes() -> list[Patch]:
    def commit(connection: sqlite3.Connection) -> None:
        connection.execute("COMMIT")

    return [(sqlite, "_commit", commit)]


def _set_no_deadline() -> list[Patch]:
    return [(network, "set_deadline", lambda _: None)]


class _FirstSequences(dict[str, int]):
    """Keeps the first sequence number of each account."""

    @override
    def __setitem__(self, account_id: str, sequence: int) -> None:
        self.setdefault(account_id, sequence)


def _search_behind_old_sequences() -> list[Patch]:
    create = PostingBatch.__init__

    def create_with_first_sequences(self: PostingBatch, *rest: Any, **named: Any) -> None:
        create(self, *rest, **named)
        self._sequences = _FirstSequences()

    return [(PostingBatch, "__init__", create_with_first_sequences)]


def _repeat_blindly() -> list[Patch]:
    async def find_nothing(_: PostingBatch, __: Transaction) -> dict[str, Movement]:
        return {}

    return [(PostingBatch, "_movements_written_before", find_nothing)]


def _read_keys_only_before_locking() -> list[Patch]:
    merge = statements.merge_snapshot

    def hide_what_was_written(before: Any, after: Any, columns: Sequence[int]) -> Any:
        """Return the sum of sequences, the first subquery, as it is after the wait."""
        return merge(before, after, columns[1:])

    return [(postgres, "merge_snapshot", hide_what_was_written)]


def _lock_nothing() -> list[Patch]:
    return [(PostgresServer, "locks_rows", False)]


def _answer_before_the_commit() -> list[Patch]:
    return [(PostgresServer, "answers_before_commit", True)]


def _call_unknown_unavailable() -> list[Patch]:
    with_retries = retries.with_retries

    async def certain(attempt: Callable[[bool], Awaitable[Any]], **options: Any) -> Any:
        try:
            return await with_retries(attempt, **options)
        except OutcomeUnknown as error:
            raise DatabaseUnavailable(error.detail) from error

    return [(postgres, "with_retries", certain), (sqlite, "with_retries", certain)]


def _pay_closed_charges() -> list[Patch]:
    lock = ChargePayments.lock

    async def lock_only(self: ChargePayments, *rest: Any, **named: Any) -> ChargeLocks:
        locks = await lock(self, *rest, **named)
        missing = [id_ for id_, status in locks.closed.items() if status is None]
        return ChargeLocks(locks.now, dict.fromkeys(missing), locks.blocked)

    return [(ChargePayments, "lock", lock_only)]


def _use_codes_again() -> list[Patch]:
    text = oauth_store.USE_CODE.text.replace(" AND used_at IS NULL", "")
    return [(oauth_store, "USE_CODE", Statement("use a code", text))]


def _say_expired_without_writing() -> list[Patch]:
    async def current_charge(self: ChargeService, charge: Charge) -> Charge:
        return msgspec.structs.replace(charge, status=status_at(charge, self._clock()))

    return [(ChargeService, "_current_charge", current_charge)]


def _trust_cached_charges() -> list[Patch]:
    async def still_open(_: Transaction, ids: Collection[str]) -> set[str]:
        return set(ids)

    return [(store, "open_charges", still_open)]


def _skip_the_balance() -> list[Patch]:
    return [(rules, "transfer_refusal", lambda *_: None)]


def _forget_keys() -> list[Patch]:
    decide = rules.decide

    def decide_as_if_new(
        postings: list[Posting], accounts: Any, recipients: Any, _: Any, *rest: Any
    ) -> Any:
        return decide(postings, accounts, recipients, {}, *rest)

    return [(batch, "decide", decide_as_if_new)]


PLANTED_BUGS = {
    "date-by-the-host": PlantedBug(
        "The database's clock dates what is written.", _date_by_the_host, first_seed=8
    ),
    "forget-failed-flushes": PlantedBug(
        "A commit whose flush failed is undone before anybody is told that it failed.",
        _forget_failed_flushes,
        first_seed=4,
    ),
    "set-no-deadline": PlantedBug(
        "A request that was given up is not executed later.", _set_no_deadline
    ),
    "search-behind-old-sequences": PlantedBug(
        "After lost history, a batch finds what its earlier attempts wrote.",
        _search_behind_old_sequences,
        first_seed=17,
    ),
    "repeat-blindly": PlantedBug(
        "After an unknown commit, a batch looks for what it has written.",
        _repeat_blindly,
        first_seed=9,
    ),
    "read-keys-only-before-locking": PlantedBug(
        "Keys that another process used while we waited for a lock are read again.",
        _read_keys_only_before_locking,
        first_seed=2,
    ),
    "lock-nothing": PlantedBug("Accounts are locked before they are read.", _lock_nothing),
    "answer-before-the-commit": PlantedBug(
        "Callers are answered after the commit.", _answer_before_the_commit
    ),
    "call-unknown-unavailable": PlantedBug(
        "Only what was not written is refused as unavailable.",
        _call_unknown_unavailable,
        first_seed=18,
    ),
    "pay-closed-charges": PlantedBug("A final charge cannot be paid.", _pay_closed_charges),
    "use-codes-again": PlantedBug("A code is used once.", _use_codes_again),
    "say-expired-without-writing": PlantedBug(
        "A final status is written before it is answered.", _say_expired_without_writing
    ),
    "trust-cached-charges": PlantedBug(
        "A charge that was open when it was last read is read again.", _trust_cached_charges
    ),
    "skip-the-balance": PlantedBug("Nobody sends more than there is.", _skip_the_balance),
    "forget-keys": PlantedBug("A used key moves nothing.", _forget_keys),
}
