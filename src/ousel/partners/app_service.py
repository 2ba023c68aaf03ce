"""What owners do with their apps: create, rename, delete, register redirect URIs and origins."""

from typing import Final

from ousel.database.port import Database, Transaction
from ousel.kernel.clock import Clock
from ousel.partners import rules, service, store
from ousel.partners.rules import ApiError, App
from ousel.partners.service import NewApp, own_app
from ousel.people.audit import EventKind, EventSource, record_event

APPS_MAX: Final = 50  # of one account
ADDRESSES_MAX: Final = 50  # redirect URIs of one app, and as many origins


class AppService:
    """Reads and changes an owner's apps; a change and its audit event are one transaction."""

    def __init__(self, database: Database, clock: Clock) -> None:
        """Work on this database."""
        self._database = database
        self._clock = clock

    async def list_apps(self, account_id: str) -> list[App]:
        """Return the apps of an account, oldest first."""
        return await self._database.read(lambda transaction: store.apps_of(transaction, account_id))

    async def get(self, account_id: str, app_id: str) -> App:
        """Return the account's own app with this client id."""
        return await self._database.read(
            lambda transaction: own_app(transaction, account_id, app_id)
        )

    async def get_with_errors(self, account_id: str, app_id: str) -> tuple[App, list[ApiError]]:
        """Return the app with its recent refused calls, newest first."""

        async def read(transaction: Transaction) -> tuple[App, list[ApiError]]:
            app = await own_app(transaction, account_id, app_id)
            return app, await store.api_errors_of(transaction, app)

        return await self._database.read(read)

    async def create(self, account_id: str, name: str, source: EventSource) -> App:
        """Create an app."""

        async def work(transaction: Transaction) -> App:
            apps = await store.apps_of(transaction, account_id)
            rules.check_below_limit(len(apps), APPS_MAX, "apps", param="name")
            new = NewApp(account_id=account_id, name=name)
            app = await service.create_app(transaction, new, self._clock)
            await self._record(transaction, app, "app_created", app.name, source)
            return app

        return await self._database.write(work)

    async def rename(self, account_id: str, app_id: str, name: str, source: EventSource) -> None:
        """Give the app another name."""

        async def work(transaction: Transaction) -> None:
            app = await own_app(transaction, account_id, app_id)
            await service.rename_app(transaction, app, name)
            detail = f"{app.name} → {name.strip()}"
            await self._record(transaction, app, "app_renamed", detail, source)

        await self._database.write(work)

    async def delete(self, account_id: str, app_id: str, source: EventSource) -> None:
        """Delete the app; raise AppHasKeys while one of its keys is valid."""

        async def work(transaction: Transaction) -> None:
            app = await own_app(transaction, account_id, app_id)
            await service.delete_app(transaction, app, self._clock)
            await self._record(transaction, app, "app_deleted", app.name, source)

        await self._database.write(work)

    async def add_redirect_uri(
        self, account_id: str, app_id: str, text: str, source: EventSource
    ) -> None:
        """Register a redirect URI, unless it is registered already."""

        async def work(transaction: Transaction) -> None:
            app = await own_app(transaction, account_id, app_id)
            uri = rules.parse_redirect_uri(text)
            registered = await store.redirect_uris_of(transaction, app)
            if uri not in registered:
                rules.check_below_limit(
                    len(registered), ADDRESSES_MAX, "redirect URIs", param="redirect_uri"
                )
                await store.add_redirect_uri(transaction, app, uri, self._clock())
                await self._record(transaction, app, "redirect_uri_added", uri, source)

        await self._database.write(work)

    async def remove_redirect_uri(
        self, account_id: str, app_id: str, uri: str, source: EventSource
    ) -> None:
        """Remove a redirect URI."""

        async def work(transaction: Transaction) -> None:
            app = await own_app(transaction, account_id, app_id)
            if uri in await store.redirect_uris_of(transaction, app):
                await store.remove_redirect_uri(transaction, app, uri)
                await self._record(transaction, app, "redirect_uri_removed", uri, source)

        await self._database.write(work)

    async def add_origin(
        self, account_id: str, app_id: str, text: str, source: EventSource
    ) -> None:
        """Register an origin, unless it is registered already."""

        async def work(transaction: Transaction) -> None:
            app = await own_app(transaction, account_id, app_id)
            origin = rules.parse_origin(text)
            registered = await store.origins_of(transaction, app)
            if origin not in registered:
                rules.check_below_limit(len(registered), ADDRESSES_MAX, "origins", param="origin")
                await store.add_origin(transaction, app, origin, self._clock())
                await self._record(transaction, app, "origin_added", origin, source)

        await self._database.write(work)

    async def remove_origin(
        self, account_id: str, app_id: str, origin: str, source: EventSource
    ) -> None:
        """Remove an origin."""

        async def work(transaction: Transaction) -> None:
            app = await own_app(transaction, account_id, app_id)
            if origin in await store.origins_of(transaction, app):
                await store.remove_origin(transaction, app, origin)
                await self._record(transaction, app, "origin_removed", origin, source)

        await self._database.write(work)

    async def _record(
        self, transaction: Transaction, app: App, kind: EventKind, detail: str, source: EventSource
    ) -> None:
        await record_event(transaction, app.account_id, kind, source, self._clock, detail)
