"""Sample data for a sandbox, so that no page of the portal is empty."""

from urllib.parse import urlencode

import msgspec

from ousel.database.addresses import open_database
from ousel.database.port import Transaction
from ousel.kernel.clock import system_clock
from ousel.kernel.ids import new_id
from ousel.ledger.queue import PostingQueue
from ousel.ledger.rules import Account, Posting
from ousel.oauth.connect import ConnectRequest, issue_code
from ousel.oauth.rules import Exchange
from ousel.oauth.service import exchange_code
from ousel.partners.rules import App
from tests.support.accounts import app_with_key, person
from tests.support.passwords import QUICK_HASHER
from tests.support.visitor import PASSWORD

REDIRECT_URI = "https://engines.example/connected"
NOTES = ("Two books", "March rent, flat 4", None, "Thank you for the music", "Lunch")


class SampleData(msgspec.Struct, frozen=True):
    """Ada, who has an app and a key, and Grace; both have money and the usual password."""

    person: Account
    friend: Account
    app: App
    key: str

    def open_paths(self) -> dict[str, str]:
        """Return the path of each page that anyone can open."""
        return {
            "welcome": "/",
            "login": "/login",
            "signup": "/signup",
            "forgot": "/forgot",
            "forgot-sent": "/forgot?done=sent",
            "login-done": "/login?done=password",
            "email-confirmed": "/verify-email?done=confirmed",
            "mail": "/sandbox/mail",
            "verify": "/verify",
            "docs": "/docs",
            "guide": "/docs/how-to/retry-safely",
            "reference": "/docs/api",
            "endpoint": "/docs/api/createTransfer",
            "errors": "/docs/errors",
        }

    def paths(self) -> dict[str, str]:
        """Return the path of each page that a person who is signed in can open."""
        return {
            "activity": "/activity",
            "movement": "/activity/2",
            "send": "/send?to=@grace&amount=25&note=Lunch",
            "apps": "/apps",
            "app-new": "/apps/new",
            "app": f"/apps/{self.app.id}",
            "endpoint-to-try": "/docs/api/createTransfer",
            "first-steps": f"/apps/{self.app.id}/first-steps",
            "lab": f"/apps/{self.app.id}/lab",
            "connect": self._connect_path(),
            "connect-more": self._connect_path(scope="profile balance"),
            "connect-besides": self._connect_path(scope="balance"),
            "connect-wrong": self._connect_path(redirect_uri="https://evil.example/"),
            "connections": "/connections",
            "settings": "/settings",
            "history": "/settings/history",
            "two-factor": "/settings/two-factor",
            "passkeys": "/settings/passkeys",
            "email": "/settings/email",
            "verify-email": "/verify-email",
            "not-found": "/nothing-here",
        }

    def _connect_path(self, **parameters: str) -> str:
        asked = {"client_id": self.app.id, "redirect_uri": REDIRECT_URI}
        return f"/connect?{urlencode(asked | parameters)}"


async def create_sample_data(database_url: str, *redirect_uris: str) -> SampleData:
    """Add people, money, transfers, and an app to which Ada is connected."""
    async with open_database(database_url) as database:
        hashed = QUICK_HASHER.hash(PASSWORD)
        ada = await person(
            database, "ada", "5000", display_name="Ada Lovelace", password_hash=hashed
        )
        grace = await person(
            database, "grace", "5000", display_name="Grace Hopper", password_hash=hashed
        )
        queue = PostingQueue(database, system_clock, queue_limit=10)
        for number, note in enumerate(NOTES, 1):
            sender, recipient = (ada, grace) if number % 2 else (grace, ada)
            await queue.post(
                Posting(
                    transfer_id=new_id("tr_", system_clock),
                    kind="transfer",
                    debit_account_id=sender.id,
                    credit_identifier=f"@{recipient.username}",
                    amount=number * 12_345_600,
                    note=note,
                )
            )
        app, key = await app_with_key(
            database,
            ada,
            "test",
            name="Analytical Engines",
            redirect_uris=[REDIRECT_URI, *redirect_uris],
            origins=["https://engines.example"],
        )
        await database.write(lambda transaction: _connect(transaction, app, ada))
        return SampleData(ada, grace, app, key)


async def _connect(transaction: Transaction, app: App, account: Account) -> None:
    request = ConnectRequest(
        app=app, redirect_uri=REDIRECT_URI, scope="profile", state=None, code_challenge=None
    )
    code = await issue_code(transaction, request, account.id, system_clock)
    exchange = Exchange(app_id=app.id, code=code, redirect_uri=REDIRECT_URI, code_verifier=None)
    await exchange_code(transaction, exchange, "test", system_clock)
