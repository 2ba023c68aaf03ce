"""Who takes part: partners with apps and keys, and people, all with money."""

import asyncio
import sqlite3
from functools import cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from unittest.mock import patch

import msgspec
from typing_extensions import override

from ousel.accounts.service import NewHolder, open_account
from ousel.database.addresses import database_at
from ousel.database.port import Database, Transaction
from ousel.database.schema import migrate
from ousel.kernel import ids
from ousel.kernel.clock import SystemClock
from ousel.kernel.ids import handle_of
from ousel.ledger.funding import fund_account
from ousel.ledger.rules import KeyCheck
from ousel.partners.service import NewApp, create_app, issue_key
from tests.simulation.network import EPOCH_MICROS

PARTNERS = ("harbour", "market", "tailor")
PEOPLE = ("ada", "grace", "edsger", "barbara", "alan")
FUNDS_MICROS = 3_000_000_000
REDIRECT_URI = "https://shop.example/return"


class Person(msgspec.Struct, frozen=True):
    """An account with a username."""

    account_id: str
    username: str


class PartnerApp(msgspec.Struct, frozen=True):
    """A partner's account, app and key."""

    person: Person
    client_id: str
    key_check: KeyCheck


class Population(msgspec.Struct, frozen=True):
    """Everybody, and the database that they are in."""

    image: bytes
    partners: tuple[PartnerApp, ...]
    people: tuple[Person, ...]

    @property
    def everybody(self) -> tuple[Person, ...]:
        """All who have an account with money."""
        return (*(partner.person for partner in self.partners), *self.people)


@cache
def population() -> Population:
    """Return the same people with the same ids each time."""
    random = Random(0)
    with (
        TemporaryDirectory() as directory,
        patch.object(ids, "os", SimpleNamespace(urandom=random.randbytes)),
        patch.object(ids, "_tails", []),
    ):
        path = Path(directory) / "population.db"
        url = f"sqlite:///{path}"

        async def build() -> Population:
            await migrate(url)
            database = database_at(url)
            await database.open()
            try:
                partners = [await _partner(database, name) for name in PARTNERS]
                people = [await _person(database, name) for name in PEOPLE]
            finally:
                await database.close()
            return Population(_image(path), tuple(partners), tuple(people))

        return asyncio.run(build())


class _HourBefore(SystemClock):
    """One hour before the simulations begin."""

    @override
    def __call__(self) -> int:
        return EPOCH_MICROS - 3600 * 1_000_000


_clock = _HourBefore()


async def _person(database: Database, name: str) -> Person:
    holder = NewHolder(
        username=name, email=f"{name}@example.com", display_name=name, password_hash=None
    )
    account = await database.write(lambda transaction: open_account(transaction, holder, _clock))
    await fund_account(database, _clock, account, FUNDS_MICROS)
    return Person(account.id, name)


async def _partner(database: Database, name: str) -> PartnerApp:
    person = await _person(database, name)

    async def create(transaction: Transaction) -> PartnerApp:
        new = NewApp(account_id=person.account_id, name=name, redirect_uris=(REDIRECT_URI,))
        app = await create_app(transaction, new, _clock)
        issued = await issue_key(transaction, app, "key", "live", _clock)
        check = KeyCheck(person.account_id, handle_of(issued.secret))
        return PartnerApp(person, app.id, check)

    return await database.write(create)


def _image(path: Path) -> bytes:
    connection = sqlite3.connect(path)
    try:
        connection.execute("PRAGMA journal_mode = DELETE")
        return connection.serialize()
    finally:
        connection.close()
