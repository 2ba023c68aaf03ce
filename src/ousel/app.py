"""The composition root: the one place that wires the rooms together."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

import structlog

from ousel.accounts.api import AccountsApi
from ousel.api.authentication import Gate
from ousel.api.health import Health
from ousel.api.openapi import openapi_document
from ousel.api.router import Router
from ousel.api.server import EndpointServer
from ousel.api.static_files import StaticFiles
from ousel.charges.api import ChargesApi
from ousel.charges.desk import ChargeDesk
from ousel.charges.pages import CheckoutPages
from ousel.database.addresses import database_at
from ousel.docs.documents import Documents
from ousel.docs.reference import Reference
from ousel.http.shutdown import stop_noticed, stop_with_parent
from ousel.kernel.clock import Clock, system_clock
from ousel.kernel.errors import Refusal
from ousel.kernel.memory import collect_rarely
from ousel.kernel.settings import Settings
from ousel.ledger.posting import PostingDesk
from ousel.oauth.api import OauthApi
from ousel.oauth.clients import Clients
from ousel.oauth.pages import ConnectPages
from ousel.oauth.tokens import UserTokens
from ousel.oauth.users import UsersApi
from ousel.observation.logs import log_to_standard_error
from ousel.observation.lookout import Lookout
from ousel.partners.keyring import Keyring
from ousel.partners.troubles import TroubleLog
from ousel.people.service import Door
from ousel.people.sessions import Sessions
from ousel.portal.activity import ActivityPages
from ousel.portal.addresses import AddressPages
from ousel.portal.apps import AppPages
from ousel.portal.charges import ChargePages
from ousel.portal.connections import ConnectionPages
from ousel.portal.desk import AppDesk
from ousel.portal.entrance import Entrance
from ousel.portal.keys import KeyPages
from ousel.portal.settings import SettingsPages
from ousel.sandbox.api import SandboxApi
from ousel.sandbox.clock import REFRESH_SECONDS, SandboxClock
from ousel.site.assets import Assets
from ousel.site.cookies import Cookies
from ousel.site.rendering import Pages
from ousel.site.server import Site
from ousel.transfers.api import TransfersApi

if TYPE_CHECKING:
    from ousel.api.routes import Route
    from ousel.site.visits import PageRoute

USES_RECORDED_SECONDS: Final = 5.0
SWEPT_SECONDS: Final = 60.0

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Chore = Callable[[], Awaitable[Any]]

_log = structlog.get_logger()


class Ousel:
    """The whole service: it responds to requests, and opens and closes what it needs."""

    def __init__(
        self, settings: Settings, clock: Clock = system_clock, *, processes: int = 1
    ) -> None:
        """Wire the service up, as one of so many processes; nothing is opened yet."""
        self.settings = settings
        self.database = database_at(settings.database_url)
        self._sandbox_clock = SandboxClock(self.database, clock) if settings.sandbox else None
        wall, clock = clock, self._sandbox_clock or clock
        self._lookout = Lookout(settings, clock, processes)
        self._desk = PostingDesk(
            self.database,
            clock,
            queue_limit=settings.queue_limit,
            observer=self._lookout.postings,
        )
        self._keyring = Keyring(self.database, clock, kind=settings.secret_kind)
        self._user_tokens = UserTokens(self.database, clock, kind=settings.secret_kind)
        self._charge_desk = ChargeDesk(self.database, self._desk, clock, self._lookout.metrics)
        self._troubles = TroubleLog(self.database, clock)
        gate = Gate(self._keyring, self._user_tokens, settings)
        clients = Clients(self._keyring, gate, self._troubles)
        base = settings.base_path
        routes = [
            *AccountsApi(self.database).routes(base),
            *TransfersApi(self.database, self._desk, clock).routes(base),
            *ChargesApi(self._charge_desk, settings.portal_url).routes(base),
            *OauthApi(self.database, clients, settings, clock).routes(),
            *UsersApi(self.database).routes(base),
        ]
        if self._sandbox_clock is not None:
            routes += SandboxApi(
                self.database,
                self._sandbox_clock,
                self._desk,
                self._charge_desk,
                settings.portal_url,
            ).routes(base)
        self.openapi = openapi_document(routes, settings, version("ousel"))
        assets = Assets()
        pages = Pages(settings, assets, packages=("charges", "docs", "oauth", "portal"))
        reference = Reference(self.openapi, routes, pages)
        routes += reference.routes(base)
        self._health = Health(self.database, settings.database_url)
        routes += self._health.routes()
        routes += StaticFiles(assets.files).routes()
        site = Site(Sessions(self.database, clock), pages, settings)
        self._door = Door(self.database, clock, wall)
        page_routes = self._page_routes(pages, reference, site.cookies, clock)
        self.routes: list[Route | PageRoute] = [*routes, *page_routes]
        self.respond = Router(
            self.routes,
            gate,
            EndpointServer(gate, self._troubles),
            site,
            settings,
            self._lookout.watch,
        ).respond

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Start with the server and stop with it; connections ask for responses themselves."""
        assert scope["type"] == "lifespan"
        await receive()
        try:
            async with self.running():
                collect_rarely()
                await send({"type": "lifespan.startup.complete"})
                with stop_noticed(self._charge_desk.watch.stop):
                    await receive()
        except Refusal as refusal:
            await send({"type": "lifespan.startup.failed", "message": refusal.detail})
            return
        await send({"type": "lifespan.shutdown.complete"})

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Open the service, and close it in the end with everything written."""
        await self.database.open()
        chores = await self._sandbox_chores()
        chores += [
            asyncio.create_task(self._again_and_again(seconds, chore))
            for seconds, chore in (
                *((USES_RECORDED_SECONDS, write) for write in self._writes_behind()),
                (SWEPT_SECONDS, self._user_tokens.sweep),
                (SWEPT_SECONDS, self._door.attempts.sweep),
            )
        ]
        try:
            async with self._lookout.open(self.database, self._desk, self._health):
                try:
                    yield
                finally:
                    await self._desk.close()
        finally:
            for chore in chores:
                chore.cancel()
            await asyncio.gather(*chores, return_exceptions=True)
            await asyncio.gather(*map(_tried, self._writes_behind()))
            await self.database.close()

    def _page_routes(
        self, pages: Pages, reference: Reference, cookies: Cookies, clock: Clock
    ) -> "list[PageRoute]":
        app_desk = AppDesk(pages, self.database, clock)
        return [
            *Documents(pages, reference.operations).page_routes(),
            *reference.page_routes(),
            *Entrance(pages, self._door, cookies).routes(),
            *ActivityPages(pages, self.database).routes(),
            *AppPages(app_desk).routes(),
            *KeyPages(app_desk, self.settings).routes(),
            *AddressPages(app_desk).routes(),
            *ChargePages(pages, self.database, self._charge_desk).routes(),
            *CheckoutPages(
                pages, self.database, self._charge_desk, self.settings.portal_url, clock
            ).routes(),
            *ConnectPages(pages, self.database, self.settings, clock).routes(),
            *ConnectionPages(pages, self.database, clock).routes(),
            *SettingsPages(pages, self.database, self._door, clock).routes(),
        ]

    def _writes_behind(self) -> tuple[Chore, ...]:
        """Return what writes down that which was gathered in memory."""
        return self._keyring.record_uses, self._troubles.write, self._user_tokens.record_uses

    async def _sandbox_chores(self) -> list[asyncio.Task[None]]:
        clock = self._sandbox_clock
        if clock is None:
            return []
        await clock.refresh()
        return [asyncio.create_task(self._again_and_again(REFRESH_SECONDS, clock.refresh))]

    async def _again_and_again(self, seconds: float, chore: Chore) -> None:
        while True:
            await asyncio.sleep(seconds)
            await _tried(chore)


async def _tried(chore: Chore) -> None:
    """Do a chore; whatever goes wrong, it has its next turn."""
    try:
        await chore()
    except Refusal as refusal:
        _log.warning("a chore waits for its next turn", code=refusal.code)
    except Exception:  # noqa: BLE001 - it is logged, and the others go on
        _log.exception("a chore failed, and waits for its next turn")


def in_worker(settings: Settings, processes: int) -> Ousel:
    """Return the service for one of a server's worker processes, of which there are so many."""
    log_to_standard_error(settings.log_level)
    stop_with_parent()
    return Ousel(settings, processes=processes)
