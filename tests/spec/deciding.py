"""What a batch moves in the model: decided by the real rules."""

from ousel.ledger import rules
from ousel.ledger.rules import (
    FIRST_HASH,
    Account,
    Entry,
    KnownKeys,
    Posting,
    Refused,
    Replay,
    decide,
)
from tests.spec.world import Head, Heads, Journal, Movement, Request, Setting, Told, Work

Decided = tuple[Told, Work]


class Decisions:
    """Decides batches of requests; each question is asked once."""

    def __init__(self, setting: Setting) -> None:
        self._intents = setting.intents
        self._names = {name: name for name in setting.accounts}
        self._decided: dict[tuple[tuple[Request, ...], Heads, Journal], Decided] = {}

    def on(self, requests: tuple[Request, ...], heads: Heads, journal: Journal) -> Decided:
        """Return whom to tell what, and what to write; all keys of this journal are known."""
        question = (requests, heads, journal)
        if question not in self._decided:
            self._decided[question] = self._decide(*question)
        return self._decided[question]

    def _decide(self, requests: tuple[Request, ...], heads: Heads, journal: Journal) -> Decided:
        accounts = {name: _account(name, head) for name, head in heads}
        postings = [self._posting(request) for request in requests]
        outcomes = decide(postings, accounts, self._names, self._known_keys(journal), now=0)
        known = (*requests, *(movement.request for movement in journal))
        by_id = {request.transfer_id: request for request in known}
        told: list[tuple[Request, Request | None]] = []
        moved: list[Movement] = []
        for request, outcome in zip(requests, outcomes, strict=True):
            match outcome:
                case Refused() | rules.KeyRejected() | rules.ChargeClosed():
                    told.append((request, None))
                case Replay(debit=debit):
                    told.append((request, by_id[debit.transfer_id]))
                case rules.Movement(debit=debit, credit=credit):
                    told.append((request, request))
                    moved.append(Movement(request, debit.sequence, credit.sequence))
        after = {name: Head(each.balance, each.sequence) for name, each in accounts.items()}
        written = tuple((name, after[name]) for name, head in heads if after[name] != head)
        return tuple(told), Work(written, tuple(moved))

    def _known_keys(self, journal: Journal) -> KnownKeys:
        entries = (self._debit_entry(movement) for movement in journal)
        return {
            (entry.account_id, entry.idempotency_key): entry
            for entry in entries
            if entry.idempotency_key is not None
        }

    def _posting(self, request: Request) -> Posting:
        intent = self._intents[request.intent]
        return Posting(
            transfer_id=request.transfer_id,
            kind="transfer",
            debit_account_id=intent.debit,
            credit_identifier=intent.credit,
            amount=intent.amount,
            idempotency_key=intent.key,
        )

    def _debit_entry(self, movement: Movement) -> Entry:
        intent = self._intents[movement.request.intent]
        return Entry(
            account_id=intent.debit,
            sequence=movement.debit_sequence,
            transfer_id=movement.request.transfer_id,
            kind="transfer",
            amount=-intent.amount,
            balance_after=0,
            counterparty_id=intent.credit,
            note=None,
            charge_id=None,
            idempotency_key=intent.key,
            created_at=0,
            hash="",
        )


def _account(name: str, head: Head) -> Account:
    return Account(name, name, "", "", "active", head.balance, head.sequence, FIRST_HASH, 0, 0)
