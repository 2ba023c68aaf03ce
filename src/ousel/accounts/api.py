"""GET /me, /balance and /accounts/:identifier."""

from typing import Annotated, Literal

import msgspec

from ousel.accounts import service, store
from ousel.database.port import Database, Transaction
from ousel.kernel.clock import timestamp
from ousel.kernel.money import CURRENCY
from ousel.ledger.refusals import AccountNotFound
from ousel.ledger.rules import Account
from ousel.web.fields import Currency, Money, Time, money
from ousel.web.routes import Answer, Call, Documented, NoBody, NoQuery, Route, json_answer


class AccountRecord(msgspec.Struct, frozen=True, kw_only=True):
    """An account as anyone may see it."""

    object: Literal["account"] = "account"
    id: str
    username: Annotated[str, msgspec.Meta(description="Without the @.")]
    account_number: str
    display_name: str
    status: Literal["active", "frozen"]
    created_at: Time


class AppSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The app whose key calls."""

    client_id: str
    name: str


class OwnAccountRecord(msgspec.Struct, frozen=True, kw_only=True):
    """An account as its owner sees it."""

    object: Literal["account"] = "account"
    id: str
    username: Annotated[str, msgspec.Meta(description="Without the @.")]
    account_number: str
    email: str
    display_name: str
    status: Literal["active", "frozen"]
    created_at: Time
    app: AppSummary


class BalanceRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What an account can spend."""

    object: Literal["balance"] = "balance"
    account_id: str
    currency: Currency = CURRENCY
    available: Money
    updated_at: Time


class AccountsApi:
    """Serves what partners ask about accounts."""

    def __init__(self, database: Database) -> None:
        """Read from this database."""
        self._database = database

    def routes(self, base: str) -> list[Route]:
        """Return the routes below the base path."""
        return [
            Route(
                method="GET",
                path=f"{base}/me",
                handle=self.me,
                name="getMe",
                summary="Read your own account",
                description="The account that the key's app belongs to.",
                successes={200: Documented("Your account.", OwnAccountRecord)},
            ),
            Route(
                method="GET",
                path=f"{base}/balance",
                handle=self.balance,
                name="getBalance",
                summary="Read your own balance",
                successes={200: Documented("Your balance.", BalanceRecord)},
            ),
            Route(
                method="GET",
                path=f"{base}/accounts/{{identifier}}",
                handle=self.account,
                name="getAccount",
                summary="Look an account up",
                description=(
                    "By @username, account number or email, percent-encoded or plain. "
                    "Letters match in either case."
                ),
                path_parameters={"identifier": "@username, account number or email."},
                successes={200: Documented("The account.", AccountRecord)},
                refusals=(AccountNotFound,),
            ),
        ]

    async def me(self, call: Call[NoBody, NoQuery]) -> Answer:
        """Answer the caller's own account."""
        partner = call.partner

        async def owner(transaction: Transaction) -> tuple[Account, str]:
            account = await service.by_id(transaction, partner.account_id)
            return account, await store.email_of(transaction, partner.account_id)

        account, email = await self._database.read(owner)
        return json_answer(
            OwnAccountRecord(
                id=account.id,
                username=account.username,
                account_number=account.account_number,
                email=email,
                display_name=account.display_name,
                status=account.status,
                created_at=timestamp(account.created_at),
                app=AppSummary(client_id=partner.client_id, name=partner.app_name),
            )
        )

    async def balance(self, call: Call[NoBody, NoQuery]) -> Answer:
        """Answer the caller's own balance."""
        account_id = call.partner.account_id
        account = await self._database.read(
            lambda transaction: service.by_id(transaction, account_id)
        )
        return json_answer(
            BalanceRecord(
                account_id=account.id,
                available=money(account.balance),
                updated_at=timestamp(account.updated_at),
            )
        )

    async def account(self, call: Call[NoBody, NoQuery]) -> Answer:
        """Answer the account that the path names."""
        identifier = call.path["identifier"]
        account = await self._database.read(
            lambda transaction: service.find(transaction, identifier, param="identifier")
        )
        return json_answer(
            AccountRecord(
                id=account.id,
                username=account.username,
                account_number=account.account_number,
                display_name=account.display_name,
                status=account.status,
                created_at=timestamp(account.created_at),
            )
        )
