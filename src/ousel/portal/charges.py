"""The portal's pages of charges: a list for each app, and a page for each charge."""

from typing import Any, Final, get_args

import msgspec

from ousel.api.paging import cursor_at
from ousel.charges.checkout import CheckoutService
from ousel.charges.records import position_after, position_of_charge
from ousel.charges.refusals import ChargeNotFound
from ousel.charges.rules import ChargeQuery, Status
from ousel.charges.service import ChargeService
from ousel.http.messages import Answer
from ousel.kernel.errors import InvalidField
from ousel.partners.app_service import AppService
from ousel.partners.rules import App
from ousel.site.rendering import PageRenderer
from ousel.site.visits import PageRoute, Visit

PAGE_CHARGES: Final = 25
STATUSES: Final[tuple[Status, ...]] = get_args(Status)


class ChargePages:
    """Serves an app's charges to its owner."""

    def __init__(
        self,
        pages: PageRenderer,
        apps: AppService,
        charges: ChargeService,
        checkouts: CheckoutService,
    ) -> None:
        """Show the charges of these apps."""
        self._pages = pages
        self._apps = apps
        self._charges = charges
        self._checkouts = checkouts

    def routes(self) -> list[PageRoute]:
        """Return the routes of charges."""
        path = "/apps/{client_id}/charges"
        return [
            PageRoute(method="GET", path=path, answer=self.show_list),
            PageRoute(method="GET", path=f"{path}/{{charge_id}}", answer=self.show_charge),
        ]

    async def show_list(self, visit: Visit) -> Answer:
        """Show a page of the app's charges."""
        app = await self._app(visit)
        refusal: InvalidField | None = None
        query = ChargeQuery(account_id=app.account_id, app_id=app.id, limit=PAGE_CHARGES)
        try:
            query = _with_filters(query, visit)
        except InvalidField as invalid:
            refusal = invalid
        found = await self._charges.list_charges(query)
        shown = found[:PAGE_CHARGES]
        context: dict[str, Any] = {
            "app": app,
            "charges": shown,
            "next_cursor": cursor_at(position_of_charge(shown[-1])) if found[PAGE_CHARGES:] else "",
            "filters": {
                name: visit.query[name]
                for name in ("status", "reference")
                if visit.query.get(name) and refusal is None
            },
            "statuses": STATUSES,
        }
        return self._pages.render("portal/charges.html", visit, refusal=refusal, **context)

    async def show_charge(self, visit: Visit) -> Answer:
        """Show one of the app's charges and its history."""
        app = await self._app(visit)
        charge = await self._charges.own_charge(app.account_id, visit.path["charge_id"])
        if charge.app_id != app.id:
            raise ChargeNotFound
        entry = await self._checkouts.merchant_entry(charge)
        return self._pages.render("portal/charge.html", visit, app=app, charge=charge, entry=entry)

    async def _app(self, visit: Visit) -> App:
        return await self._apps.get(visit.signed_in.account_id, visit.path["client_id"])


def _with_filters(query: ChargeQuery, visit: Visit) -> ChargeQuery:
    """Return the query with the filters of the visit, or refuse an invalid one."""
    filters = visit.query
    status = next((each for each in STATUSES if each == filters.get("status")), None)
    if filters.get("status") and status is None:
        raise InvalidField("Choose a status from the list.", param="status")
    return msgspec.structs.replace(
        query,
        status=status,
        reference=filters.get("reference") or None,
        position=position_after(filters.get("cursor") or None),
    )
