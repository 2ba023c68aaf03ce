"""Pages that only a sandbox has: its mail, which is not sent, and test money for a person."""

from typing import Final

from ousel.accounts.service import AccountService
from ousel.http.messages import Answer
from ousel.kernel.clock import Clock
from ousel.kernel.money import MICROS_PER_UNIT
from ousel.ledger.funding import fund_through
from ousel.ledger.queue import PostingQueue
from ousel.mail.outbox import Outbox
from ousel.people.attempts import AttemptCounter
from ousel.site.forms import seed_of
from ousel.site.redirects import local_path, see_other
from ousel.site.rendering import PageRenderer
from ousel.site.visits import PageRoute, Visit

TEST_MONEY_MICROS: Final = 100 * MICROS_PER_UNIT  # "Activity" names this amount


class SandboxPages:
    """Serves the mail of a sandbox to everyone, and test money to people who are signed in."""

    def __init__(
        self,
        pages: PageRenderer,
        outbox: Outbox,
        accounts: AccountService,
        posting_queue: PostingQueue,
        attempts: AttemptCounter,
        clock: Clock,
    ) -> None:
        """Read the mail in this outbox; issue money through this queue."""
        self._pages = pages
        self._outbox = outbox
        self._accounts = accounts
        self._posting_queue = posting_queue
        self._attempts = attempts
        self._clock = clock

    def routes(self) -> list[PageRoute]:
        """Return the routes of the mail and of test money."""
        return [
            PageRoute(method="GET", path="/sandbox/mail", answer=self.mail, for_everyone=True),
            PageRoute(method="POST", path="/sandbox/test-money", answer=self.issue_test_money),
        ]

    async def mail(self, visit: Visit) -> Answer:
        """Show the newest messages."""
        messages = await self._outbox.newest(visit.query.get("to"))
        return self._pages.render(
            "sandbox/mail.html", visit, messages=messages, portal_url=self._outbox.portal_url
        )

    async def issue_test_money(self, visit: Visit) -> Answer:
        """Issue money to the person's account, and lead back to the page that needs it.

        A form that is sent twice issues money once.
        """
        account = await self._accounts.get(visit.signed_in.account_id)
        await self._attempts.count_test_money(account.id)
        await fund_through(
            self._posting_queue,
            self._clock,
            account,
            TEST_MONEY_MICROS,
            note="Test money",
            idempotency_key=f"test-money:{account.id}:{seed_of(visit)}",
        )
        return see_other(local_path(visit.form.get("next", ""), "/activity"))
