"""Pages on which people confirm their email by a code or a link, and change it."""

from ousel.accounts.service import IdentifierInUse
from ousel.emails.service import PATH
from ousel.http.messages import Answer
from ousel.kernel.errors import InvalidField, Refusal
from ousel.people.email_confirmation import EmailConfirmationService
from ousel.people.event_source import event_source
from ousel.site.redirects import see_other
from ousel.site.rendering import PageRenderer
from ousel.site.visits import PageRoute, Visit


class EmailPages:
    """Serves the pages about a person's email."""

    def __init__(self, pages: PageRenderer, emails: EmailConfirmationService) -> None:
        """Confirm and change emails with this service."""
        self._pages = pages
        self._emails = emails

    def routes(self) -> list[PageRoute]:
        """Return the routes of emails."""
        return [
            PageRoute(method="GET", path=PATH, answer=self.show, for_everyone=True),
            PageRoute(method="POST", path=PATH, answer=self.confirm, for_everyone=True),
            PageRoute(method="POST", path=f"{PATH}/send", answer=self.send),
            PageRoute(method="GET", path="/settings/email", answer=self.show_change),
            PageRoute(method="POST", path="/settings/email", answer=self.change),
        ]

    async def show(self, visit: Visit) -> Answer:
        """Ask for the code, or show what a link confirms.

        Opening the link changes nothing, because programs that scan mail open links too.
        """
        if "token" in visit.query:
            return await self._link_page(visit, visit.query["token"])
        if visit.query.get("done") == "link" or (
            visit.query.get("done") == "confirmed" and visit.person is None
        ):
            return self._pages.render("portal/email_confirmed.html", visit)
        return await self._code_page(visit)

    async def confirm(self, visit: Visit) -> Answer:
        """Confirm an email, by the link's token or by the code."""
        if "token" in visit.form:
            confirmed = await self._emails.confirm_with_link(
                visit.form["token"], event_source(visit)
            )
            is_own = visit.person is None or visit.person.account_id == confirmed
            return see_other(f"{PATH}?done={'confirmed' if is_own else 'link'}")
        if visit.person is None:
            return see_other(f"/login?next={PATH}")
        try:
            await self._emails.confirm_with_code(
                visit.person.account_id, visit.form.get("code", ""), event_source(visit)
            )
        except (InvalidField, IdentifierInUse) as refusal:
            if not await self._is_confirmed_already(visit):
                return await self._code_page(visit, refusal)
        return see_other(f"{PATH}?done=confirmed")

    async def _is_confirmed_already(self, visit: Visit) -> bool:
        """Return whether the form was sent twice, or the link was used meanwhile."""
        state = await self._emails.state(visit.signed_in.account_id)
        return state.to_confirm is None and state.email.address == visit.form.get("email")

    async def send(self, visit: Visit) -> Answer:
        """Send another message with a link and a code."""
        try:
            await self._emails.send(visit.signed_in.account_id, event_source(visit))
        except InvalidField as refusal:
            return await self._code_page(visit, refusal)
        return see_other(f"{PATH}?done=sent")

    async def show_change(self, visit: Visit) -> Answer:
        """Ask for a new email and the password."""
        return await self._change_page(visit)

    async def change(self, visit: Visit) -> Answer:
        """Send a message to the new email."""
        try:
            await self._emails.change(
                visit.signed_in.account_id,
                visit.form.get("password", ""),
                visit.form.get("email", ""),
                event_source(visit),
            )
        except InvalidField as refusal:
            return await self._change_page(visit, refusal)
        return see_other(f"{PATH}?done=sent")

    async def _link_page(self, visit: Visit, token: str) -> Answer:
        target = await self._emails.find_link(token, event_source(visit))
        return self._pages.render(
            "portal/email_link.html", visit, target=target, token=token, path=PATH
        )

    async def _code_page(self, visit: Visit, refusal: Refusal | None = None) -> Answer:
        if visit.person is None:
            return see_other(f"/login?next={PATH}")
        return await self._page("portal/email_code.html", visit, refusal)

    async def _change_page(self, visit: Visit, refusal: Refusal | None = None) -> Answer:
        return await self._page("portal/email_change.html", visit, refusal)

    async def _page(self, template: str, visit: Visit, refusal: Refusal | None) -> Answer:
        return self._pages.render(
            template,
            visit,
            refusal=refusal,
            state=await self._emails.state(visit.signed_in.account_id),
            path=PATH,
        )
