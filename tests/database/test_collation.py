"""PostgreSQL databases whose collation or encoding is not the one that Ousel asks for."""

import asyncio
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from ousel.database.addresses import open_database
from ousel.database.port import Transaction
from ousel.database.schema import migrate
from ousel.kernel.clock import system_clock
from ousel.people import store
from ousel.people.account_settings import AFTER_ALL_EVENTS
from ousel.people.audit import EventKind, EventSource, record_event
from tests.cli.commands import assert_fails, ousel
from tests.support.accounts import person, verify
from tests.support.postgres_server import PostgresServer

pytestmark = pytest.mark.slow

LANGUAGES = ("en_US", "cs_CZ")  # in Czech, "ch" is a letter that comes after "h"
PEOPLE = 40
EVENTS: tuple[EventKind, ...] = ("signed_up", "password_changed", "signed_out")


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A PostgreSQL server with the locales of these languages."""
    compiler = shutil.which("localedef")
    if compiler is None:
        pytest.skip("there is no localedef to make locales with")
    folder = Path(tempfile.mkdtemp(prefix="ousel-locales-"))
    folder.chmod(0o755)
    for language in LANGUAGES:
        target = str(folder / f"{language}.UTF-8")
        command = [compiler, "-i", language, "-f", "UTF-8", target]
        made = subprocess.run(command, check=False, umask=0o022)  # PostgreSQL reads it as its user
        if made.returncode != 0:
            pytest.skip(f"there are no sources of the locale {language}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOCPATH", str(folder))
        running = PostgresServer()
    with running:
        yield running
    shutil.rmtree(folder)


def created(server: PostgresServer, language: str) -> str:
    """Return the address of a new database in which texts sort as in this language."""
    options = f"TEMPLATE template0 ENCODING 'UTF8' LOCALE '{language}.UTF-8'"
    return server.empty_url(language.lower(), options)


@pytest.fixture
def english(server: PostgresServer) -> str:
    """An empty database that sorts punctuation before digits and almost ignores case."""
    return created(server, "en_US")


@pytest.fixture
def czech(server: PostgresServer) -> str:
    """An empty database that sorts some pairs of letters as one letter."""
    return created(server, "cs_CZ")


async def history(transaction: Transaction, account_id: str) -> list[str]:
    """Record events of an account, and return those on the first page of its history."""
    for kind in EVENTS:
        await record_event(
            transaction, account_id, kind, EventSource("192.0.2.1", ""), system_clock
        )
        await asyncio.sleep(0.002)  # ids sort by milliseconds
    shown = await store.events_before(transaction, account_id, AFTER_ALL_EVENTS, 10)
    return [event.kind for event in shown]


async def test_ids_sort_by_time_in_english_too(english: str) -> None:
    """An account's history is complete, newest first, and verification reads accounts in order."""
    await migrate(english)
    async with open_database(english) as database:
        people = [await person(database, f"person_{number}", "1") for number in range(PEOPLE)]

        shown = await database.write(partial(history, account_id=people[0].id))

        assert shown == list(reversed(EVENTS))
        assert (await verify(database)).accounts == PEOPLE + 1


def test_a_database_that_sorts_ids_differently_is_refused(czech: str) -> None:
    """It is neither migrated nor used; one clear line says which collation to choose."""
    for command in ("migrate", "verify", "serve"):
        assert_fails(ousel(command, database=czech), 'create the database with the collation "C"')


def test_a_database_that_cannot_store_all_texts_is_refused(server: PostgresServer) -> None:
    """It is neither migrated nor used; one clear line says which encoding to choose."""
    latin = server.empty_url("latin", "TEMPLATE template0 ENCODING 'LATIN1' LOCALE 'C'")

    for command in ("migrate", "verify", "serve"):
        assert_fails(ousel(command, database=latin), "create the database with the encoding UTF8")
