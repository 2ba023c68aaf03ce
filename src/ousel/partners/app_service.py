"""What owners do with their apps: create, rename, delete, register redirect URIs and origins."""

from collections.abc import Callable
from typing import Final, NamedTuple

from ousel.accounts import service as accounts
from ousel.database.port import Database, Transaction
from ousel.kernel.clock import Clock
from ousel.kernel.ids import repeatable_id, tail_of_id
from ousel.kernel.texts import isolated
from ousel.partners import rules, service, store
from ousel.partners.rules import ApiError, App, RepeatableRequest
from ousel.partners.service import NewApp, own_app
from ousel.partners.store import AddressStatements
from ousel.people.audit import EventKind, EventSource, record_event

APPS_MAX: Final = 50  # of one account
ADDRESSES_MAX: Final = 50  # redirect URIs of one app, and as many origins


class AddressKind(NamedTuple):
    """How redirect URIs and origins differ."""

    field: str
    plural: str
    parse: Callable[[str], str]
    statements: AddressStatements
    added: EventKind
    removed: EventKind


REDIRECT_URI: Final = AddressKind(
    field="redirect_uri",
    plural="redirect URIs",
    parse=rules.parse_redirect_uri,
    statements=store.REDIRECT_URI_STATEMENTS,
    added="redirect_uri_added",
    removed="redirect_uri_removed",
)
ORIGIN: Final = AddressKind(
    field="origin",
    plural="origins",
    parse=rules.parse_origin,
    statements=store.ORIGIN_STATEMENTS,
    added="origin_added",
    removed="origin_removed",
)


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

    async def create(
        self, account_id: str, name: str, request: RepeatableRequest, source: EventSource
    ) -> App:
        """Create an app, or return the one that the same request has created before."""
        app_id = repeatable_id("app_", self._clock, request.parent, request.purpose)

        async def work(transaction: Transaction) -> App:
            # Wait for a concurrent request of this person, which may be the same one.
            await accounts.lock_holder(transaction, account_id)
            apps = await store.apps_of(transaction, account_id)
            for app in apps:
                if tail_of_id(app.id) == tail_of_id(app_id):
                    return app
            rules.check_below_limit(len(apps), APPS_MAX, "apps", "delete", param="name")
            new = NewApp(account_id=account_id, name=name, id=app_id)
            app = await service.create_app(transaction, new, self._clock)
            await self._record(transaction, app, "app_created", app.name, source)
            return app

        return await self._database.write(work)

    async def rename(self, account_id: str, app_id: str, name: str, source: EventSource) -> None:
        """Give the app another name."""

        async def work(transaction: Transaction) -> None:
            app = await own_app(transaction, account_id, app_id)
            new_name = rules.parse_name(name)
            if new_name == app.name:
                return
            await service.rename_app(transaction, app, new_name)
            detail = f"{isolated(app.name)} → {isolated(new_name)}"
            await self._record(transaction, app, "app_renamed", detail, source)

        await self._database.write(work)

    async def delete(self, account_id: str, app_id: str, source: EventSource) -> None:
        """Delete the app; raise AppHasKeys while one of its keys is valid."""

        async def work(transaction: Transaction) -> None:
            await accounts.lock_holder(transaction, account_id)  # a key may be issued meanwhile
            app = await own_app(transaction, account_id, app_id)
            await service.delete_app(transaction, app, self._clock)
            await self._record(transaction, app, "app_deleted", app.name, source)

        await self._database.write(work)

    async def add_address(
        self, account_id: str, app_id: str, kind: AddressKind, text: str, source: EventSource
    ) -> None:
        """Register a redirect URI or an origin, unless it is registered already."""

        async def work(transaction: Transaction) -> None:
            await accounts.lock_holder(transaction, account_id)  # the app may be deleted meanwhile
            app = await own_app(transaction, account_id, app_id)
            address = kind.parse(text)
            registered = await store.addresses_of(transaction, app, kind.statements)
            if address not in registered:
                rules.check_below_limit(
                    len(registered), ADDRESSES_MAX, kind.plural, "remove", param=kind.field
                )
                await store.add_address(transaction, app, kind.statements, address, self._clock())
                await self._record(transaction, app, kind.added, address, source)

        await self._database.write(work)

    async def remove_address(
        self, account_id: str, app_id: str, kind: AddressKind, address: str, source: EventSource
    ) -> None:
        """Remove a redirect URI or an origin."""

        async def work(transaction: Transaction) -> None:
            app = await own_app(transaction, account_id, app_id)
            if address in await store.addresses_of(transaction, app, kind.statements):
                await store.remove_address(transaction, app, kind.statements, address)
                await self._record(transaction, app, kind.removed, address, source)

        await self._database.write(work)

    async def _record(
        self, transaction: Transaction, app: App, kind: EventKind, detail: str, source: EventSource
    ) -> None:
        await record_event(transaction, app.account_id, kind, source, self._clock, detail)
