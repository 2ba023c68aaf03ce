"""GET /user/me and /user/balance: what a user token lets an app read."""

from ousel.accounts.records import BalanceRecord, HolderRecord, balance_record, holder_record
from ousel.accounts.service import AccountService
from ousel.api.route import AnswerDescription, Call, NoBody, NoQuery, Route
from ousel.http.messages import Answer, json_answer


class UserEndpoints:
    """Lets apps read the accounts of people who connected."""

    def __init__(self, accounts: AccountService) -> None:
        """Read accounts from this service."""
        self._accounts = accounts

    def routes(self, base: str) -> list[Route]:
        """Return the routes below the base path."""
        return [
            Route(
                method="GET",
                path=f"{base}/user/me",
                endpoint=self.me,
                name="getUser",
                summary="Read the user's profile",
                description="The account of the person who connected. Needs the scope profile.",
                access="user",
                scope="profile",
                successes={200: AnswerDescription("The user's account.", HolderRecord)},
            ),
            Route(
                method="GET",
                path=f"{base}/user/balance",
                endpoint=self.balance,
                name="getUserBalance",
                summary="Read the user's balance",
                description="The balance of the person who connected. Needs the scope balance.",
                access="user",
                scope="balance",
                successes={200: AnswerDescription("The user's balance.", BalanceRecord)},
            ),
        ]

    async def me(self, call: Call[NoBody, NoQuery]) -> Answer:
        """Answer with the account of the token's user."""
        found = await self._accounts.get_with_email(call.user.account_id)
        return json_answer(holder_record(found))

    async def balance(self, call: Call[NoBody, NoQuery]) -> Answer:
        """Answer with the balance of the token's user."""
        return json_answer(balance_record(await self._accounts.get(call.user.account_id)))
