"""Sample data for measurements: partners with a key and money, and many recipients."""

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Final

import msgspec

from ousel.database.addresses import open_database
from ousel.database.port import Transaction
from ousel.database.schema import migrate
from ousel.database.statements import Table
from ousel.kernel.account_numbers import account_number
from ousel.kernel.clock import system_clock
from ousel.kernel.ids import new_id
from ousel.kernel.money import AMOUNT_MICROS_MAX
from ousel.ledger import journal
from ousel.ledger.funding import fund_through
from ousel.ledger.queue import PostingQueue
from ousel.ledger.rules import BALANCE_MICROS_MAX, FIRST_HASH, Account
from ousel.partners.service import NewApp, create_app, issue_key
from ousel.workload.processes import environment_without_settings

IDENTIFIERS: Final = Table("identifiers", key=("identifier text",), columns=("account_id text",))


class SampleData(msgspec.Struct, frozen=True):
    """The partners, their keys, and the recipients they may send money to."""

    partners: list[Account]
    keys: list[str]
    recipients: list[str]


class Verification(msgspec.Struct, frozen=True):
    """The result of `ousel verify`."""

    transfers: int
    seconds: float


class Addition(msgspec.Struct, frozen=True):
    """The result of `ousel verify --since`."""

    leaves_added: int
    seconds: float


def create_sample_data(database_url: str, partners: int, recipients: int) -> SampleData:
    """Migrate an empty database, open these numbers of accounts, and fund the partners."""
    asyncio.run(migrate(database_url))
    return asyncio.run(_create(database_url, partners, recipients))


def verify_ledger(database_url: str, **settings: str) -> Verification:
    """Return the result of `ousel verify`, or raise if it fails."""
    return msgspec.json.decode(_verify(database_url, settings), type=Verification)


def verify_since(database_url: str, checkpoint: Path, **settings: str) -> Addition:
    """Return the result of `ousel verify --since` with this checkpoint, or raise if it fails."""
    printed = _verify(database_url, settings, "--since", str(checkpoint))
    return msgspec.json.decode(printed, type=Addition)


def _verify(database_url: str, settings: dict[str, str], *options: str) -> bytes:
    finished = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-m", "ousel", "verify", "--json", *options],
        env=environment_without_settings() | {"OUSEL_DATABASE_URL": database_url} | settings,
        capture_output=True,
        check=True,
    )
    return finished.stdout


async def _create(url: str, partners_wanted: int, recipients_wanted: int) -> SampleData:
    partners = [_account(f"partner{index:06d}", index) for index in range(partners_wanted)]
    recipients = [
        _account(f"person{index:06d}", partners_wanted + index)
        for index in range(recipients_wanted)
    ]

    async def fill(transaction: Transaction) -> list[str]:
        await _open_accounts(transaction, partners + recipients)
        return [await _create_key(transaction, partner) for partner in partners]

    async with open_database(url) as database:
        keys = await database.write(fill)
        queue = PostingQueue(database, system_clock, queue_limit=len(partners))
        amount = min(AMOUNT_MICROS_MAX, BALANCE_MICROS_MAX // partners_wanted)
        await asyncio.gather(
            *(fund_through(queue, system_clock, each, amount) for each in partners)
        )
    return SampleData(partners, keys, [f"@{recipient.username}" for recipient in recipients])


def _account(username: str, index: int) -> Account:
    now = system_clock()
    return Account(
        id=new_id("acct_", system_clock),
        username=username,
        account_number=account_number(1 + index),
        display_name=username.title(),
        status="active",
        balance=0,
        sequence=0,
        head_hash=FIRST_HASH,
        created_at=now,
        updated_at=now,
    )


async def _open_accounts(transaction: Transaction, accounts: list[Account]) -> None:
    await transaction.insert(journal.ACCOUNTS, map(msgspec.structs.astuple, accounts))
    names = [
        (identifier, account.id)
        for account in accounts
        for identifier in (f"@{account.username}", account.account_number)
    ]
    await transaction.insert(IDENTIFIERS, names)


async def _create_key(transaction: Transaction, partner: Account) -> str:
    app = await create_app(
        transaction, NewApp(account_id=partner.id, name=partner.username), system_clock
    )
    issued = await issue_key(transaction, app, "bench", "live", system_clock)
    return issued.secret
