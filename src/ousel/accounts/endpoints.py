"""GET /me, /balance and /accounts/:identifier."""

import msgspec

from ousel.accounts import service
from ousel.accounts.records import (
    AccountRecord,
    BalanceRecord,
    HolderRecord,
    account_record,
    balance_records,
    holder_record,
)
from ousel.api.routes import Call, Documented, NoBody, NoQuery, Route
from ousel.database.port import Database
from ousel.database.sharing import SharedReads
from ousel.http.messages import Answer, json_answer
from ousel.ledger.refusals import AccountNotFound


class AppSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The app whose key calls."""

    client_id: str
    name: str


class OwnAccountRecord(HolderRecord, frozen=True, kw_only=True):
    """An account as its owner's own app sees it."""

    app: AppSummary


class AccountEndpoints:
    """Serves what partners ask about accounts."""

    def __init__(self, database: Database) -> None:
        """Read from this database."""
        self._database = database
        self._balances = SharedReads(database, balance_records)

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
        holder = await self._database.read(
            lambda transaction: holder_record(transaction, partner.account_id)
        )
        app = AppSummary(client_id=partner.client_id, name=partner.app_name)
        return json_answer(OwnAccountRecord(**msgspec.structs.asdict(holder), app=app))

    async def balance(self, call: Call[NoBody, NoQuery]) -> Answer:
        """Answer the caller's own balance."""
        return json_answer(await self._balances.get(call.partner.account_id))

    async def account(self, call: Call[NoBody, NoQuery]) -> Answer:
        """Answer the account that the path names."""
        identifier = call.path["identifier"]
        account = await self._database.read(
            lambda transaction: service.find_account(transaction, identifier, param="identifier")
        )
        return json_answer(account_record(account))
