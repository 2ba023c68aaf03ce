"""The world of the model: who wants what, what the processes hold, and what is on disk."""

from typing import Literal

import msgspec

from ousel.ledger.rules import SYSTEM_ACCOUNT_ID

Phase = Literal["idle", "begun", "written", "committing", "committed"]
Mood = Literal["wants", "waits", "told", "doubts"]


class Intent(msgspec.Struct, frozen=True):
    """What a client wants: with a key it asks until it is told, without one it asks once."""

    debit: str
    credit: str
    amount: int
    key: str | None = None


class Design(msgspec.Struct, frozen=True, kw_only=True):
    """How posting works; each of these turned round is a mistake that the explorer must find."""

    commits_before_answering: bool = True
    looks_after_unknown_commit: bool = True
    reads_keys_again_if_overtaken: bool = True
    locks_in_one_order: bool = True
    locks_at_all: bool = True


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """What does not change while a model is explored."""

    intents: tuple[Intent, ...]
    balances: dict[str, int]
    design: Design = Design()
    processes: int = 2
    faults: int = 2

    @property
    def accounts(self) -> dict[str, "Head"]:
        """The accounts at the beginning, with what was issued to them owed by the system."""
        issued = sum(self.balances.values())
        return {
            SYSTEM_ACCOUNT_ID: Head(-issued, 0),
            **{name: Head(balance, 0) for name, balance in sorted(self.balances.items())},
        }


class Request(msgspec.Struct, frozen=True, order=True):
    """One attempt of a client to have its intent carried out."""

    intent: int
    attempt: int

    @property
    def transfer_id(self) -> str:
        """What the movement is called, should this request be the one that moves money."""
        return f"transfer {self.intent + 1}.{self.attempt}"


class Head(msgspec.Struct, frozen=True):
    """An account's row: its balance, and the number of its last entry."""

    balance: int
    sequence: int


class Movement(msgspec.Struct, frozen=True):
    """Two entries of the journal, which carry the numbers that they have in their accounts."""

    request: Request
    debit_sequence: int
    credit_sequence: int


Heads = tuple[tuple[str, Head], ...]
Journal = tuple[Movement, ...]
Told = tuple[tuple[Request, Request | None], ...]  # to whom, and which request moved the money


class Work(msgspec.Struct, frozen=True):
    """What a transaction will leave on disk once it is committed, and whom it has locked."""

    heads: Heads = ()
    moved: Journal = ()
    locked: tuple[str, ...] = ()


class Glance(msgspec.Struct, frozen=True):
    """What the statement that locks saw at its start, before it waited for any lock."""

    keys_used: bool
    sequences: tuple[tuple[str, int], ...]  # of the accounts that shall be debited


class Process(msgspec.Struct, frozen=True):
    """A server process, which forgets all of this when it dies."""

    phase: Phase = "idle"
    waiting: tuple[Request, ...] = ()
    batch: tuple[Request, ...] = ()
    work: Work = Work()
    told: Told = ()
    glance: Glance | None = None
    sequences: tuple[tuple[str, int], ...] = ()  # as the first attempt found them
    in_doubt: bool = False


class Client(msgspec.Struct, frozen=True):
    """A client with one intent: what it was told last, about which of its attempts."""

    mood: Mood = "wants"
    attempt: int = 0
    told: Request | None = None  # the request that moved the money; none where it was refused


class World(msgspec.Struct, frozen=True):
    """One state of everything."""

    heads: Heads
    clients: tuple[Client, ...]
    processes: tuple[Process, ...]
    faults_left: int
    journal: Journal = ()
    orphans: tuple[Work, ...] = ()  # commits under way whose process is gone or cut off


def beginning(setting: Setting) -> World:
    """Return the state in which nobody has done anything yet."""
    return World(
        heads=tuple(setting.accounts.items()),
        clients=(Client(),) * len(setting.intents),
        processes=(Process(),) * setting.processes,
        faults_left=setting.faults,
    )
