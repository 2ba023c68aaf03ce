"""The page that shows the mail of a sandbox, which is not sent."""

from ousel.http.messages import Answer
from ousel.mail.outbox import Outbox
from ousel.site.rendering import PageRenderer
from ousel.site.visits import PageRoute, Visit


class SandboxPages:
    """Serves the mail of a sandbox to everyone who visits it."""

    def __init__(self, pages: PageRenderer, outbox: Outbox) -> None:
        """Read the mail in this outbox."""
        self._pages = pages
        self._outbox = outbox

    def routes(self) -> list[PageRoute]:
        """Return the route of the mail."""
        return [
            PageRoute(method="GET", path="/sandbox/mail", answer=self.mail, for_everyone=True),
        ]

    async def mail(self, visit: Visit) -> Answer:
        """Show the newest messages."""
        messages = await self._outbox.newest(visit.query.get("to"))
        return self._pages.render("sandbox/mail.html", visit, messages=messages)
