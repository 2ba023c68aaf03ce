"""Charges: what an app has asked for, and what became of each."""

from typing import Any, Final, get_args

import msgspec

from ousel.api.paging import cursor_at
from ousel.charges.records import position_after, position_of_charge
from ousel.charges.refusals import ChargeNotFound
from ousel.charges.rules import Charge, Status
from ousel.charges.service import ChargeService
from ousel.charges.store import ChargeQuery
from ousel.database.port import Database, Transaction
from ousel.http.messages import Answer
from ousel.kernel.errors import InvalidField
from ousel.ledger.history import entry_of_transfer
from ousel.ledger.rules import Entry
from ousel.partners.rules import App
from ousel.partners.service import own_app
from ousel.site.rendering import PageRenderer
from ousel.site.visits import PageRoute, Visit

PAGE_CHARGES: Final = 25
STATUSES: Final[tuple[Status, ...]] = get_args(Status)


class ChargePages:
    """Serves a partner's charges to the one who owns the app."""

    def __init__(self, pages: PageRenderer, database: Database, charges: ChargeService) -> None:
        """Read charges at this desk."""
        self._pages = pages
        self._database = database
        self._charges = charges

    def routes(self) -> list[PageRoute]:
        """Return the routes of charges."""
        of_app = "/apps/{client_id}/charges"
        return [
            PageRoute(method="GET", path=of_app, handle=self.show_all),
            PageRoute(method="GET", path=f"{of_app}/{{charge_id}}", handle=self.show),
        ]

    async def show_all(self, visit: Visit) -> Answer:
        """Show a page of the app's charges."""
        app = await self._app(visit)
        refusal: InvalidField | None = None
        wanted = ChargeQuery(account_id=app.account_id, app_id=app.id, limit=PAGE_CHARGES)
        try:
            wanted = _filtered(wanted, visit)
        except InvalidField as invalid:
            refusal = invalid
        found = await self._charges.list_charges(wanted)
        shown = found[:PAGE_CHARGES]
        context: dict[str, Any] = {
            "app": app,
            "charges": shown,
            "next_cursor": cursor_at(position_of_charge(shown[-1])) if found[PAGE_CHARGES:] else "",
            "filters": {
                name: visit.query[name] for name in ("status", "reference") if visit.query.get(name)
            },
            "statuses": STATUSES,
            "refusal": refusal,
        }
        status = 200 if refusal is None else refusal.status
        return self._pages.render("portal/charges.html", visit, status=status, **context)

    async def show(self, visit: Visit) -> Answer:
        """Show one of the app's charges, with what happened to it."""
        app = await self._app(visit)
        charge = await self._charges.own_charge(app.account_id, visit.path["charge_id"])
        if charge.app_id != app.id:
            raise ChargeNotFound
        entry = await self._database.read(lambda transaction: _entry(transaction, charge))
        return self._pages.render("portal/charge.html", visit, app=app, charge=charge, entry=entry)

    async def _app(self, visit: Visit) -> App:
        account_id = visit.signed_in.account_id
        return await self._database.read(
            lambda transaction: own_app(transaction, account_id, visit.path["client_id"])
        )


async def _entry(transaction: Transaction, charge: Charge) -> Entry | None:
    """Return the owner's side of the payment, if there was one."""
    if charge.transfer_id is None or charge.paid_at is None:
        return None
    return await entry_of_transfer(
        transaction, charge.account_id, charge.transfer_id, charge.paid_at
    )


def _filtered(wanted: ChargeQuery, visit: Visit) -> ChargeQuery:
    query = visit.query
    status = next((each for each in STATUSES if each == query.get("status")), None)
    if query.get("status") and status is None:
        raise InvalidField("Choose a status from the list.", param="status")
    return msgspec.structs.replace(
        wanted,
        status=status,
        reference=query.get("reference") or None,
        before=position_after(query.get("cursor") or None),
    )
