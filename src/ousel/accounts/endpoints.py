"""GET /me, /balance and /accounts/:identifier."""

import msgspec

from ousel.accounts.records import (
    AccountRecord,
    BalanceRecord,
    HolderRecord,
    account_record,
    balance_record,
    holder_record,
)
from ousel.accounts.service import AccountService
from ousel.api.route import AnswerDescription, Call, NoBody, NoQuery, Route
from ousel.http.messages import Answer, json_answer
from ousel.ledger.refusals import AccountNotFound


class AppSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The app that the key belongs to."""

    client_id: str
    name: str


class OwnAccountRecord(HolderRecord, frozen=True, kw_only=True):
    """An account, as an app of its owner sees it."""

    app: AppSummary


class AccountEndpoints:
    """Lets partners read accounts."""

    def __init__(self, accounts: AccountService) -> None:
        """Read accounts from this service."""
        self._accounts = accounts

    def routes(self, base: str) -> list[Route]:
        """Return the routes below the base path."""
        return [
            Route(
                method="GET",
                path=f"{base}/me",
                endpoint=self.me,
                name="getMe",
                summary="Read your own account",
                description="The account that the key's app belongs to.",
                successes={200: AnswerDescription("Your account.", OwnAccountRecord)},
            ),
            Route(
                method="GET",
                path=f"{base}/balance",
                endpoint=self.balance,
                name="getBalance",
                summary="Read your own balance",
                successes={200: AnswerDescription("Your balance.", BalanceRecord)},
            ),
            Route(
                method="GET",
                path=f"{base}/accounts/{{identifier}}",
                endpoint=self.account,
                name="getAccount",
                summary="Look an account up",
                description=(
                    "Use an @username, an account number or an email, percent-encoded or plain. "
                    "Upper and lower case are the same."
                ),
                path_parameters={"identifier": "@username, account number or email."},
                successes={200: AnswerDescription("The account.", AccountRecord)},
                refusals=(AccountNotFound,),
            ),
        ]

    async def me(self, call: Call[NoBody, NoQuery]) -> Answer:
        """Answer with the caller's own account."""
        partner = call.partner
        holder = holder_record(await self._accounts.get_with_email(partner.account_id))
        app = AppSummary(client_id=partner.client_id, name=partner.app_name)
        return json_answer(OwnAccountRecord(**msgspec.structs.asdict(holder), app=app))

    async def balance(self, call: Call[NoBody, NoQuery]) -> Answer:
        """Answer with the caller's own balance."""
        return json_answer(balance_record(await self._accounts.get(call.partner.account_id)))

    async def account(self, call: Call[NoBody, NoQuery]) -> Answer:
        """Answer with the account that has the identifier in the path."""
        account = await self._accounts.find(call.path["identifier"], param="identifier")
        return json_answer(account_record(account))
