"""In the model, the real rules decide what a batch moves."""

from ousel.ledger import rules
from ousel.ledger.rules import (
    FIRST_HASH,
    Account,
    Entry,
    Posting,
    Refused,
    Replay,
    UsedIdempotencyKeys,
    decide,
)
from tests.spec.world import (
    AccountState,
    AccountStates,
    Answers,
    Journal,
    Movement,
    PendingWrites,
    Request,
    Scenario,
)

Decision = tuple[Answers, PendingWrites]


class Decisions:
    """Decides batches of requests; equal questions are decided once."""

    def __init__(self, scenario: Scenario) -> None:
        self._intents = scenario.intents
        self._names = {name: name for name in scenario.accounts}
        self._decided: dict[tuple[tuple[Request, ...], AccountStates, Journal], Decision] = {}

    def decide(
        self, requests: tuple[Request, ...], accounts: AccountStates, journal: Journal
    ) -> Decision:
        """Return the answers, and what to write; the keys of this journal are known."""
        question = (requests, accounts, journal)
        if question not in self._decided:
            self._decided[question] = self._decide(*question)
        return self._decided[question]

    def _decide(
        self, requests: tuple[Request, ...], states: AccountStates, journal: Journal
    ) -> Decision:
        accounts = {name: _account(name, state) for name, state in states}
        postings = [self._posting(request) for request in requests]
        outcomes = decide(postings, accounts, self._names, self._known_keys(journal), now=0)
        all_requests = (*requests, *(movement.request for movement in journal))
        by_id = {request.transfer_id: request for request in all_requests}
        answers: list[tuple[Request, Request | None]] = []
        movements: list[Movement] = []
        for request, outcome in zip(requests, outcomes, strict=True):
            match outcome:
                case Refused() | rules.KeyRejected() | rules.ChargeClosed():
                    answers.append((request, None))
                case Replay(debit=debit):
                    answers.append((request, by_id[debit.transfer_id]))
                case rules.Movement(debit=debit, credit=credit):
                    answers.append((request, request))
                    movements.append(Movement(request, debit.sequence, credit.sequence))
        after = {name: AccountState(each.balance, each.sequence) for name, each in accounts.items()}
        written = tuple((name, after[name]) for name, state in states if after[name] != state)
        return tuple(answers), PendingWrites(written, tuple(movements))

    def _known_keys(self, journal: Journal) -> UsedIdempotencyKeys:
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


def _account(name: str, state: AccountState) -> Account:
    return Account(name, name, "", "", "active", state.balance, state.sequence, FIRST_HASH, 0, 0)
