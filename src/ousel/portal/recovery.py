"""Pages for people who have forgotten their password: asking for a link, and using it."""

from typing import Final

from ousel.http.messages import Answer
from ousel.kernel.errors import InvalidField, Refusal
from ousel.people.email_confirmation import NoMail
from ousel.people.event_source import event_source
from ousel.people.recovery import PATH, RecoveryService, ResetLinkEnded
from ousel.portal.sign_in import next_of, with_next
from ousel.site.redirects import see_other
from ousel.site.rendering import PageRenderer
from ousel.site.visits import PageRoute, Visit

FORGOT: Final = "/forgot"


class RecoveryPages:
    """Serves the pages that lead to a new password."""

    def __init__(self, pages: PageRenderer, recovery: RecoveryService) -> None:
        """Send and use links with this service."""
        self._pages = pages
        self._recovery = recovery

    def routes(self) -> list[PageRoute]:
        """Return the routes of recovery."""
        return [
            PageRoute(method="GET", path=FORGOT, answer=self.show_request, for_everyone=True),
            PageRoute(method="POST", path=FORGOT, answer=self.send_link, for_everyone=True),
            PageRoute(method="GET", path=PATH, answer=self.show_link, for_everyone=True),
            PageRoute(method="POST", path=PATH, answer=self.set_password, for_everyone=True),
        ]

    async def show_request(self, visit: Visit) -> Answer:
        """Ask whose password was forgotten, or say that a link is on its way."""
        return self._request_page(visit)

    async def send_link(self, visit: Visit) -> Answer:
        """Send a link; the answer is the same whether the account exists or not."""
        if not self._recovery.accepts_mail:
            raise NoMail("This server sends no mail. Ask its operator for a link.")
        await self._recovery.send_link(visit.form.get("identifier", ""), event_source(visit))
        return see_other(with_next(f"{FORGOT}?done=sent", next_of(visit)))

    async def show_link(self, visit: Visit) -> Answer:
        """Ask for a new password; opening the link changes nothing."""
        return await self._link_page(visit, visit.query.get("token", ""))

    async def set_password(self, visit: Visit) -> Answer:
        """Set the new password, and lead to the page on which to sign in with it."""
        token = visit.form.get("token", "")
        try:
            await self._recovery.set_password(
                token, visit.form.get("new_password", ""), event_source(visit)
            )
        except InvalidField as refusal:
            return await self._link_page(visit, token, refusal)
        except ResetLinkEnded as refusal:
            return self._request_page(visit, refusal)
        return see_other("/login?done=password")

    async def _link_page(self, visit: Visit, token: str, refusal: Refusal | None = None) -> Answer:
        try:
            target = await self._recovery.find_link(token, event_source(visit))
        except ResetLinkEnded as ended:
            return self._request_page(visit, ended)
        return self._pages.render(
            "portal/reset.html",
            visit,
            refusal=refusal,
            target=target,
            token=token,
            path=PATH,
        )

    def _request_page(self, visit: Visit, refusal: Refusal | None = None) -> Answer:
        return self._pages.render(
            "portal/forgot.html",
            visit,
            refusal=refusal,
            accepts_mail=self._recovery.accepts_mail,
            next=next_of(visit),
        )
