"""A portal with something on every page."""

import asyncio
from urllib.parse import urlencode

import msgspec
from playwright.sync_api import Page

from ousel.accounts.service import NewHolder, open_account
from ousel.database.port import Database, Transaction
from ousel.kernel.clock import system_clock
from ousel.kernel.ids import new_id
from ousel.kernel.money import MICROS_PER_UNIT
from ousel.ledger.funding import fund_account
from ousel.ledger.posting import PostingQueue
from ousel.ledger.rules import Account, Posting
from ousel.oauth.connect import ConnectRequest, issue_code
from ousel.oauth.rules import Exchange
from ousel.oauth.service import exchange_code
from ousel.partners.rules import App
from ousel.partners.service import NewApp, create_app, issue_key
from ousel.people.passwords import PasswordService
from tests.support.accounts import open_database

PASSWORD = "correct horse battery"
REDIRECT_URI = "https://engines.example/connected"
NOTES = ("Two books", "March rent, flat 4", None, "Thank you for the music", "Lunch")


class Furnished(msgspec.Struct, frozen=True):
    """Who and what is there."""

    person: Account
    friend: Account
    app: App
    key: str

    def sign_in(self, page: Page, username: str | None = None) -> None:
        """Sign in as the person, or as someone else."""
        page.goto("/login")
        page.get_by_label("Email or username").fill(username or self.person.username)
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button", name="Sign in").click()
        page.wait_for_url("**/activity")

    def open_paths(self) -> dict[str, str]:
        """Return the path of each page that anyone can open."""
        return {
            "welcome": "/",
            "login": "/login",
            "signup": "/signup",
            "docs": "/docs",
            "guide": "/docs/how-to/retry-safely",
            "reference": "/docs/api",
            "errors": "/docs/errors",
        }

    def paths(self) -> dict[str, str]:
        """Return the path of each page that a person who is signed in can open."""
        return {
            "activity": "/activity",
            "movement": "/activity/2",
            "apps": "/apps",
            "app-new": "/apps/new",
            "app": f"/apps/{self.app.id}",
            "first-steps": f"/apps/{self.app.id}/first-steps",
            "connect": self._connect_path(),
            "connect-more": self._connect_path(scope="profile balance"),
            "connect-besides": self._connect_path(scope="balance"),
            "connect-wrong": self._connect_path(redirect_uri="https://evil.example/"),
            "connections": "/connections",
            "settings": "/settings",
            "history": "/settings/history",
            "two-factor": "/settings/two-factor",
            "not-found": "/nothing-here",
        }

    def _connect_path(self, **parameters: str) -> str:
        asked = {"client_id": self.app.id, "redirect_uri": REDIRECT_URI}
        return f"/connect?{urlencode(asked | parameters)}"


def furnished(database_url: str) -> Furnished:
    """Fill a fresh sandbox with people, money and an app."""
    return asyncio.run(_furnished(database_url))


async def _furnished(database_url: str) -> Furnished:
    async with open_database(database_url) as database:
        hashed = await PasswordService().hash_password(PASSWORD)
        person = await add_person(database, "ada", "Ada Lovelace", hashed)
        friend = await add_person(database, "grace", "Grace Hopper", hashed)
        for account in (person, friend):
            await fund_account(database, system_clock, account, 5_000 * MICROS_PER_UNIT)
        charges = PostingQueue(database, system_clock, queue_limit=10)
        for number, note in enumerate(NOTES, 1):
            sender, recipient = (person, friend) if number % 2 else (friend, person)
            await charges.post(
                Posting(
                    transfer_id=new_id("tr_", system_clock),
                    kind="transfer",
                    debit_account_id=sender.id,
                    credit_identifier=f"@{recipient.username}",
                    amount=number * 12_345_600,
                    note=note,
                )
            )
        app, key = await database.write(lambda transaction: _app(transaction, person))
        await database.write(lambda transaction: _connected(transaction, app, person))
        return Furnished(person, friend, app, key)


async def add_person(database: Database, username: str, name: str, hashed: str | None) -> Account:
    """Open an account for someone with this password's hash."""
    holder = NewHolder(
        username=username,
        email=f"{username}@example.com",
        display_name=name,
        password_hash=hashed,
    )
    return await database.write(lambda transaction: open_account(transaction, holder, system_clock))


async def _connected(transaction: Transaction, app: App, person: Account) -> None:
    """Let the person be connected to the app already."""
    request = ConnectRequest(
        app=app, redirect_uri=REDIRECT_URI, scope="profile", state=None, code_challenge=None
    )
    code = await issue_code(transaction, request, person.id, system_clock)
    wish = Exchange(app_id=app.id, code=code, redirect_uri=REDIRECT_URI, code_verifier=None)
    await exchange_code(transaction, wish, "test", system_clock)


async def _app(transaction: Transaction, owner: Account) -> tuple[App, str]:
    new = NewApp(
        account_id=owner.id,
        name="Analytical Engines",
        redirect_uris=[REDIRECT_URI],
        origins=["https://engines.example"],
    )
    app = await create_app(transaction, new, system_clock)
    issued = await issue_key(transaction, app, "production server", "test", system_clock)
    return app, issued.secret
