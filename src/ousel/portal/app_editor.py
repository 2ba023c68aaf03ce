"""An app's own page, from which its owner changes it."""

from collections.abc import Awaitable
from typing import Any, Final

from ousel.http.messages import Answer
from ousel.kernel.errors import InvalidField, Refusal
from ousel.partners.rules import OVERLAP_SECONDS_DEFAULT
from ousel.partners.service import IssuedKey
from ousel.portal.app_overview import AppOverviewService
from ousel.site.redirects import see_other
from ousel.site.rendering import PageRenderer
from ousel.site.visits import Visit

OVERLAP_LABELS: Final = {"0": "at once", "3600": "1 hour", "86400": "24 hours", "604800": "7 days"}


class AppEditor:
    """Shows an app to its owner, when its page is opened and after each change."""

    def __init__(self, pages: PageRenderer, overviews: AppOverviewService) -> None:
        """Show the apps that this service reads."""
        self._pages = pages
        self._overviews = overviews

    async def page(
        self, visit: Visit, refusal: Refusal | None = None, issued: IssuedKey | None = None
    ) -> Answer:
        """Show the app, with a refusal or a newly issued key."""
        context: dict[str, Any] = {
            "view": await self._overviews.read(visit.signed_in.account_id, visit.path["client_id"]),
            "issued": issued,
            "overlaps": OVERLAP_LABELS,
            "default_overlap": str(OVERLAP_SECONDS_DEFAULT),
        }
        return self._pages.render("portal/app.html", visit, refusal=refusal, **context)

    async def apply(self, visit: Visit, change: Awaitable[None]) -> Answer:
        """Await the change and show the app again, or show what is wrong with the input."""
        try:
            await change
        except InvalidField as refusal:
            return await self.page(visit, refusal)
        return see_other(f"/apps/{visit.path['client_id']}")
