"""Apps: create, rename, delete; their keys, redirect URIs and origins."""

from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any

import msgspec

from ousel.database.port import Database, Transaction
from ousel.kernel.clock import Clock
from ousel.kernel.errors import InvalidField, Refusal
from ousel.kernel.settings import Settings
from ousel.oauth.service import users_connected
from ousel.partners import rules, service, store
from ousel.partners.service import AppHasKeys, IssuedKey, NewApp
from ousel.partners.store import App, Key, Trouble
from ousel.people import store as people
from ousel.people.audit import Happening, record
from ousel.portal.entrance import errors_of, trace_of
from ousel.web.pages import Pages
from ousel.web.routes import Answer
from ousel.web.site import see_other
from ousel.web.visits import PageRoute, Visit

OVERLAPS = {"0": "at once", "3600": "1 hour", "86400": "24 hours", "604800": "7 days"}

Change = Callable[[Transaction, App], Awaitable[None]]


class SecondFactorNeeded(Refusal):
    """A live key is issued or rotated only by someone who signs in with a second factor."""

    status = 403
    code = "second_factor_needed"
    title = "Turn on two-factor sign-in first"
    cure = "Turn it on under Settings, then issue the key."


class Desk(msgspec.Struct, frozen=True, kw_only=True):
    """All that an app's page shows."""

    app: App
    keys: list[Key]
    redirect_uris: list[str]
    origins: list[str]
    people_connected: int
    now: int


class AppPages:
    """Serves a partner's apps."""

    def __init__(self, pages: Pages, database: Database, settings: Settings, clock: Clock) -> None:
        """Keep apps in this database."""
        self._pages = pages
        self._database = database
        self._settings = settings
        self._clock = clock

    def routes(self) -> list[PageRoute]:
        """Return the routes of apps."""
        posts = {
            "/apps/new": self.create,
            "/apps/{client_id}/rename": self.rename,
            "/apps/{client_id}/delete": self.delete,
            "/apps/{client_id}/keys": self.issue,
            "/apps/{client_id}/keys/{handle}/rotate": self.rotate,
            "/apps/{client_id}/keys/{handle}/revoke": self.revoke,
            "/apps/{client_id}/redirect-uris": self.add_redirect_uri,
            "/apps/{client_id}/redirect-uris/remove": self.remove_redirect_uri,
            "/apps/{client_id}/origins": self.add_origin,
            "/apps/{client_id}/origins/remove": self.remove_origin,
        }
        gets = {
            "/apps": self.show_all,
            "/apps/new": self.show_new,
            "/apps/{client_id}": self.show,
            "/apps/{client_id}/first-steps": self.first_steps,
            "/apps/{client_id}/errors": self.errors,
        }
        return [
            *(PageRoute(method="GET", path=path, handle=handle) for path, handle in gets.items()),
            *(PageRoute(method="POST", path=path, handle=handle) for path, handle in posts.items()),
        ]

    async def show_all(self, visit: Visit) -> Answer:
        """Show the person's apps."""
        account_id = visit.signed_in.account_id
        apps = await self._database.read(lambda transaction: store.apps_of(transaction, account_id))
        return self._pages.answer("portal/apps.html", visit, apps=apps)

    async def show_new(self, visit: Visit) -> Answer:
        """Show the form that creates an app."""
        return self._pages.answer("portal/app_new.html", visit, errors={})

    async def create(self, visit: Visit) -> Answer:
        """Create an app."""
        new = NewApp(account_id=visit.signed_in.account_id, name=visit.form.get("name", ""))

        async def work(transaction: Transaction) -> App:
            app = await service.create_app(transaction, new, self._clock)
            await self._record(transaction, visit, "app_created", app.name)
            return app

        try:
            app = await self._database.write(work)
        except InvalidField as refusal:
            return self._pages.answer(
                "portal/app_new.html", visit, status=refusal.status, errors=errors_of(refusal)
            )
        return see_other(f"/apps/{app.id}")

    async def show(self, visit: Visit) -> Answer:
        """Show an app with its keys and addresses."""
        return await self._desk_page(visit)

    async def rename(self, visit: Visit) -> Answer:
        """Rename the app."""

        async def change(transaction: Transaction, app: App) -> None:
            name = visit.form.get("name", "")
            await service.rename_app(transaction, app, name)
            await self._record(transaction, visit, "app_renamed", f"{app.name} → {name.strip()}")

        return await self._changed(visit, change)

    async def delete(self, visit: Visit) -> Answer:
        """Delete the app."""

        async def change(transaction: Transaction, app: App) -> None:
            await service.delete_app(transaction, app, self._clock)
            await self._record(transaction, visit, "app_deleted", app.name)

        try:
            await self._write(visit, change)
        except AppHasKeys as refusal:
            return await self._desk_page(visit, refusal)
        return see_other("/apps")

    async def issue(self, visit: Visit) -> Answer:
        """Issue a key, and show it this once."""

        async def work(transaction: Transaction) -> IssuedKey:
            app = await self._own_app(transaction, visit)
            await self._check_second_factor(transaction, visit)
            try:
                issued = await service.issue_key(
                    transaction,
                    app,
                    visit.form.get("key_name", ""),
                    self._settings.secret_kind,
                    self._clock,
                )
            except InvalidField as refusal:
                raise InvalidField(refusal.detail, param="key_name") from refusal
            await self._record(transaction, visit, "key_issued", _shown(issued.key))
            return issued

        return await self._issued(visit, work)

    async def rotate(self, visit: Visit) -> Answer:
        """Rotate a key, and show the new one this once."""
        overlap = visit.form.get("overlap", "")
        if overlap not in OVERLAPS:
            raise InvalidField("Choose how long the old key goes on.", param="overlap")

        async def work(transaction: Transaction) -> IssuedKey:
            app = await self._own_app(transaction, visit)
            await self._check_second_factor(transaction, visit)
            key = await service.own_key(transaction, app, visit.path["handle"])
            issued = await service.rotate_key(transaction, key, int(overlap), self._clock)
            await self._record(
                transaction, visit, "key_rotated", f"{_shown(key)} → {_shown(issued.key)}"
            )
            return issued

        return await self._issued(visit, work)

    async def revoke(self, visit: Visit) -> Answer:
        """Revoke a key: calls with it are refused from this moment on."""

        async def change(transaction: Transaction, app: App) -> None:
            key = await service.own_key(transaction, app, visit.path["handle"])
            await service.revoke_key(transaction, key, self._clock)
            await self._record(transaction, visit, "key_revoked", _shown(key))

        return await self._changed(visit, change)

    async def add_redirect_uri(self, visit: Visit) -> Answer:
        """Register a redirect URI."""

        async def change(transaction: Transaction, app: App) -> None:
            uri = rules.checked_redirect_uri(visit.form.get("redirect_uri", "").strip())
            await store.add_redirect_uri(transaction, app, uri, self._clock())
            await self._record(transaction, visit, "redirect_uri_added", uri)

        return await self._changed(visit, change)

    async def remove_redirect_uri(self, visit: Visit) -> Answer:
        """Remove a redirect URI."""

        async def change(transaction: Transaction, app: App) -> None:
            uri = visit.form.get("redirect_uri", "")
            if await store.has_redirect_uri(transaction, app, uri):
                await store.remove_redirect_uri(transaction, app, uri)
                await self._record(transaction, visit, "redirect_uri_removed", uri)

        return await self._changed(visit, change)

    async def add_origin(self, visit: Visit) -> Answer:
        """Register an origin."""

        async def change(transaction: Transaction, app: App) -> None:
            origin = rules.checked_origin(visit.form.get("origin", "").strip())
            await store.add_origin(transaction, app, origin, self._clock())
            await self._record(transaction, visit, "origin_added", origin)

        return await self._changed(visit, change)

    async def remove_origin(self, visit: Visit) -> Answer:
        """Remove an origin."""

        async def change(transaction: Transaction, app: App) -> None:
            origin = visit.form.get("origin", "")
            if await store.has_origin(transaction, app.account_id, app.id, origin):
                await store.remove_origin(transaction, app, origin)
                await self._record(transaction, visit, "origin_removed", origin)

        return await self._changed(visit, change)

    async def first_steps(self, visit: Visit) -> Answer:
        """Show how to make the first calls, with this app's own client id."""
        app = await self._database.read(lambda transaction: self._own_app(transaction, visit))
        return self._pages.answer("portal/first_steps.html", visit, app=app)

    async def errors(self, visit: Visit) -> Answer:
        """Show the app's recent calls that were refused."""

        async def read(transaction: Transaction) -> tuple[App, list[Trouble]]:
            app = await self._own_app(transaction, visit)
            return app, await store.troubles_of(transaction, app)

        app, troubles = await self._database.read(read)
        return self._pages.answer("portal/app_errors.html", visit, app=app, troubles=troubles)

    async def _changed(self, visit: Visit, change: Change) -> Answer:
        """Make a change to the app, and show it; or show what is wrong with the input."""
        try:
            await self._write(visit, change)
        except InvalidField as refusal:
            return await self._desk_page(visit, refusal)
        return see_other(f"/apps/{visit.path['client_id']}")

    async def _issued(
        self, visit: Visit, work: Callable[[Transaction], Awaitable[IssuedKey]]
    ) -> Answer:
        try:
            issued = await self._database.write(work)
        except (InvalidField, SecondFactorNeeded) as refusal:
            return await self._desk_page(visit, refusal)
        return await self._desk_page(visit, issued=issued)

    async def _write(self, visit: Visit, change: Change) -> None:
        async def work(transaction: Transaction) -> None:
            await change(transaction, await self._own_app(transaction, visit))

        await self._database.write(work)

    async def _desk_page(
        self, visit: Visit, refusal: Refusal | None = None, issued: IssuedKey | None = None
    ) -> Answer:
        async def read(transaction: Transaction) -> Desk:
            app = await self._own_app(transaction, visit)
            now = self._clock()
            return Desk(
                app=app,
                keys=await service.keys_of(transaction, app),
                redirect_uris=await store.redirect_uris_of(transaction, app),
                origins=await store.origins_of(transaction, app),
                people_connected=await users_connected(transaction, app.id, now),
                now=now,
            )

        context: dict[str, Any] = {
            "desk": await self._database.read(read),
            "refusal": refusal,
            "errors": errors_of(refusal),
            "issued": issued,
            "overlaps": OVERLAPS,
        }
        status = HTTPStatus.OK if refusal is None else refusal.status
        return self._pages.answer("portal/app.html", visit, status=status, **context)

    async def _own_app(self, transaction: Transaction, visit: Visit) -> App:
        return await service.own_app(
            transaction, visit.signed_in.account_id, visit.path["client_id"]
        )

    async def _check_second_factor(self, transaction: Transaction, visit: Visit) -> None:
        if self._settings.sandbox:
            return
        factor = await people.second_factor_of(transaction, visit.signed_in.account_id)
        if factor is None or factor.confirmed_at is None:
            raise SecondFactorNeeded(
                "A live key moves real money, so it takes two-factor sign-in to issue one."
            )

    async def _record(
        self, transaction: Transaction, visit: Visit, kind: Happening, detail: str
    ) -> None:
        await record(
            transaction, visit.signed_in.account_id, kind, trace_of(visit), self._clock, detail
        )


def _shown(key: Key) -> str:
    return f"{key.name} ({key.handle}…)"
