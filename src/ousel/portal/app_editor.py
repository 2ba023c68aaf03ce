"""An app's own page, and the changes that are made from it."""

from collections.abc import Awaitable, Callable, Sequence
from http import HTTPStatus
from typing import Any, Final

import msgspec

from ousel.database.port import Database, Transaction
from ousel.http.messages import Answer
from ousel.kernel.clock import Clock
from ousel.kernel.errors import InvalidField, Refusal
from ousel.oauth.service import count_users
from ousel.partners import service, store
from ousel.partners.rules import App, Key
from ousel.partners.service import IssuedKey
from ousel.people.audit import EventKind, record_event
from ousel.portal.sign_in import event_source, field_errors
from ousel.site.redirects import see_other
from ousel.site.rendering import PageRenderer
from ousel.site.visits import Visit

OVERLAPS: Final = {"0": "at once", "3600": "1 hour", "86400": "24 hours", "604800": "7 days"}
ENDED_KEYS_SHOWN: Final = 10

Change = Callable[[Transaction, App], Awaitable[None]]


class AppView(msgspec.Struct, frozen=True, kw_only=True):
    """All that an app's page shows."""

    app: App
    keys: list[Key]
    redirect_uris: list[str]
    origins: list[str]
    people_connected: int
    now: int


class AppEditor:
    """Shows an app to its owner, and changes it in one transaction with the record of that."""

    def __init__(self, pages: PageRenderer, database: Database, clock: Clock) -> None:
        """Keep apps in this database."""
        self.pages = pages
        self.database = database
        self.clock = clock

    async def own_app(self, transaction: Transaction, visit: Visit) -> App:
        """Return the app that the visit's path names, if it is the visitor's own."""
        return await service.own_app(
            transaction, visit.signed_in.account_id, visit.path["client_id"]
        )

    async def page(
        self, visit: Visit, refusal: Refusal | None = None, issued: IssuedKey | None = None
    ) -> Answer:
        """Show the app, with what was refused or issued just now."""

        async def read(transaction: Transaction) -> AppView:
            app = await self.own_app(transaction, visit)
            now = self.clock()
            return AppView(
                app=app,
                keys=shown_keys(await service.keys_of(transaction, app), now),
                redirect_uris=await store.redirect_uris_of(transaction, app),
                origins=await store.origins_of(transaction, app),
                people_connected=await count_users(transaction, app.id, now),
                now=now,
            )

        context: dict[str, Any] = {
            "view": await self.database.read(read),
            "refusal": refusal,
            "errors": field_errors(refusal),
            "issued": issued,
            "overlaps": OVERLAPS,
        }
        status = HTTPStatus.OK if refusal is None else refusal.status
        return self.pages.render("portal/app.html", visit, status=status, **context)

    async def change(self, visit: Visit, change: Change) -> Answer:
        """Make a change to the app, and show it; or show what is wrong with the input."""
        try:
            await self.write(visit, change)
        except InvalidField as refusal:
            return await self.page(visit, refusal)
        return see_other(f"/apps/{visit.path['client_id']}")

    async def write(self, visit: Visit, change: Change) -> None:
        """Make a change to the app."""

        async def work(transaction: Transaction) -> None:
            await change(transaction, await self.own_app(transaction, visit))

        await self.database.write(work)

    async def record(
        self, transaction: Transaction, visit: Visit, kind: EventKind, detail: str
    ) -> None:
        """Write down what the visitor does."""
        await record_event(
            transaction, visit.signed_in.account_id, kind, event_source(visit), self.clock, detail
        )


def shown_keys(keys: Sequence[Key], now: int) -> list[Key]:
    """Return the keys that work, and below them the few that were ended last."""
    working = [key for key in keys if key.is_valid_at(now)]
    ended = [key for key in keys if not key.is_valid_at(now)]
    ended.sort(key=lambda key: key.end or now, reverse=True)
    return [*working, *ended[:ENDED_KEYS_SHOWN]]


def check_room(count: int, most: int, what: str, *, param: str) -> None:
    """Refuse one more of something of which there are as many as may be."""
    if count >= most:
        raise InvalidField(f"There are {most} {what} already: remove one first.", param=param)
