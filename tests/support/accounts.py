"""Accounts for tests: people with money, and partners with an app and a key."""

import secrets
from typing import Any, NamedTuple

from ousel.accounts.service import NewHolder, account_by_id, open_account
from ousel.database.port import Database, Transaction
from ousel.kernel.clock import Clock, system_clock
from ousel.kernel.money import micros_from_json
from ousel.ledger.funding import fund_account
from ousel.ledger.rules import Account
from ousel.ledger.verify import VerifiedTotals, verify_database
from ousel.partners.rules import App
from ousel.partners.service import NewApp, create_app, issue_key


class Partner(NamedTuple):
    """An account with an app and a key."""

    account: Account
    app: App
    key: str


def unique_name(prefix: str = "u") -> str:
    """Return a username that no other test has."""
    return f"{prefix}_{secrets.token_hex(8)}"


async def person(
    database: Database,
    username: str,
    funds: str | None = None,
    clock: Clock = system_clock,
    *,
    display_name: str | None = None,
    password_hash: str | None = None,
) -> Account:
    """Open an account with these funds."""
    holder = NewHolder(
        username=username,
        email=f"{username}@example.com",
        display_name=display_name or username.title(),
        password_hash=password_hash,
    )
    account = await database.write(lambda transaction: open_account(transaction, holder, clock))
    if funds is not None:
        await fund_account(database, clock, account, micros_from_json(funds.encode()))
    return account


async def partner(
    database: Database, username: str, funds: str | None = None, kind: str = "live", **app: Any
) -> Partner:
    """Open an account with funds, an app and a key of this kind."""
    account = await person(database, username, funds)
    return Partner(account, *await app_with_key(database, account, kind, **app))


async def app_with_key(
    database: Database, account: Account, kind: str = "live", **app: Any
) -> tuple[App, str]:
    """Give an account an app and a key of this kind."""

    async def create(transaction: Transaction) -> tuple[App, str]:
        named = {"name": f"{account.display_name} App"} | app
        new = NewApp(account_id=account.id, **named)
        created = await create_app(transaction, new, system_clock)
        issued = await issue_key(transaction, created, "key", kind, system_clock)
        return created, issued.secret

    return await database.write(create)


async def balance(database: Database, account: Account) -> int:
    """Return the account's balance in millionths."""
    return (await database.read(lambda transaction: account_by_id(transaction, account.id))).balance


async def verify(database: Database) -> VerifiedTotals:
    """Verify the ledger, and return its totals."""
    return await database.snapshot(verify_database)
