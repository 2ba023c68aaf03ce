"""The state of the model: what clients want, what processes have in memory, what is on disk."""

from typing import Literal

import msgspec

from ousel.ledger.rules import SYSTEM_ACCOUNT_ID

Phase = Literal["idle", "begun", "written", "committing", "committed"]
ClientStatus = Literal["wants", "waits", "answered", "in_doubt"]


class Intent(msgspec.Struct, frozen=True):
    """What a client wants: with a key it asks until it is answered, without one it asks once."""

    debit: str
    credit: str
    amount: int
    key: str | None = None


class Design(msgspec.Struct, frozen=True, kw_only=True):
    """How posting works; each of these set to False is a mistake that the explorer must find."""

    commits_before_answering: bool = True
    looks_after_unknown_commit: bool = True
    reads_keys_again_if_overtaken: bool = True
    locks_in_one_order: bool = True
    locks_at_all: bool = True
    looks_behind_lowest_sequence: bool = True
    waits_for_all_rows_in_doubt: bool = True


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """What does not change while a model is explored."""

    intents: tuple[Intent, ...]
    balances: dict[str, int]
    design: Design = Design()
    processes: int = 2
    faults: int = 2
    moved_before: int = 0  # so many of the last intents have moved, and nobody was told
    loses_history: bool = False  # a switch of leaders may lose movements that nobody was told of

    @property
    def accounts(self) -> dict[str, "AccountState"]:
        """The accounts at the beginning; the system account owes what was issued to the others."""
        issued = sum(self.balances.values())
        return {
            SYSTEM_ACCOUNT_ID: AccountState(-issued, 0),
            **{name: AccountState(balance, 0) for name, balance in sorted(self.balances.items())},
        }


class Request(msgspec.Struct, frozen=True, order=True):
    """One attempt of a client at its intent."""

    intent: int
    attempt: int

    @property
    def transfer_id(self) -> str:
        """The id of the transfer, if this request is the one that moves the money."""
        return f"transfer {self.intent + 1}.{self.attempt}"


class AccountState(msgspec.Struct, frozen=True):
    """An account's row: its balance, and the number of its last entry."""

    balance: int
    sequence: int


class Movement(msgspec.Struct, frozen=True):
    """Two entries of the journal, with their sequence numbers in their accounts."""

    request: Request
    debit_sequence: int
    credit_sequence: int


AccountStates = tuple[tuple[str, AccountState], ...]
Journal = tuple[Movement, ...]
Answers = tuple[
    tuple[Request, Request | None], ...
]  # a request, and the request that moved its money


class PendingWrites(msgspec.Struct, frozen=True):
    """What a transaction will write when it commits, and which accounts it has locked."""

    accounts: AccountStates = ()
    movements: Journal = ()
    locked: tuple[str, ...] = ()


class FirstLook(msgspec.Struct, frozen=True):
    """What the statement that locks saw at its start, before it waited for any lock."""

    keys_used: bool
    sequences: tuple[tuple[str, int], ...]  # of the debited accounts


class Process(msgspec.Struct, frozen=True):
    """A server process; all of this is in memory and lost when it is killed.

    Its writers take turns here. In reality they run side by side, like those of two processes.
    """

    phase: Phase = "idle"
    waiting: tuple[Request, ...] = ()
    batch: tuple[Request, ...] = ()
    pending: PendingWrites = PendingWrites()
    answers: Answers = ()
    first_look: FirstLook | None = None
    sequences: tuple[tuple[str, int], ...] = ()  # the lowest that an attempt has found
    in_doubt: bool = False
    aside: tuple[tuple[Request, str], ...] = ()  # requests that wait, and the account they wait for
    awaited: str | None = None  # the account that the batch waits for before it locks others


class Client(msgspec.Struct, frozen=True):
    """A client with one intent: its current attempt, and the last answer."""

    status: ClientStatus = "wants"
    attempt: int = 0
    answer: Request | None = None  # the request that moved the money; None if refused


class World(msgspec.Struct, frozen=True):
    """One state of the model."""

    accounts: AccountStates
    clients: tuple[Client, ...]
    processes: tuple[Process, ...]
    faults_left: int
    journal: Journal = ()
    abandoned_commits: tuple[PendingWrites, ...] = ()  # sent by a process that is gone or cut off


def initial_world(scenario: Scenario) -> World:
    """Return the state before the first step."""
    accounts, journal = scenario.accounts, []
    clients = [Client()] * len(scenario.intents)
    for number in range(len(clients) - scenario.moved_before, len(clients)):
        clients[number] = Client("in_doubt", 1)
        intent = scenario.intents[number]
        for name, amount in ((intent.debit, -intent.amount), (intent.credit, intent.amount)):
            state = accounts[name]
            accounts[name] = AccountState(state.balance + amount, state.sequence + 1)
        sequences = accounts[intent.debit].sequence, accounts[intent.credit].sequence
        journal.append(Movement(Request(number, 1), *sequences))
    return World(
        accounts=tuple(accounts.items()),
        clients=tuple(clients),
        processes=(Process(),) * scenario.processes,
        faults_left=scenario.faults,
        journal=tuple(journal),
    )
