"""The composition root: the one place that wires the rooms together."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

import structlog

from ousel.accounts.endpoints import AccountEndpoints
from ousel.api.authentication import ApiAuthenticator
from ousel.api.health import Health
from ousel.api.openapi import openapi_document
from ousel.api.router import Router
from ousel.api.server import EndpointServer
from ousel.api.static_files import StaticFiles
from ousel.charges.endpoints import ChargeEndpoints
from ousel.charges.pages import CheckoutPages
from ousel.charges.service import ChargeService
from ousel.database.addresses import database_at
from ousel.docs.documents import Documents
from ousel.docs.reference import ApiReference
from ousel.http.shutdown import on_stop_signal, stop_with_parent
from ousel.kernel.clock import Clock, system_clock
from ousel.kernel.errors import Refusal
from ousel.kernel.garbage_collection import tune_garbage_collector
from ousel.kernel.settings import Settings
from ousel.ledger.posting import PostingQueue
from ousel.oauth.client_authentication import ClientAuthenticator
from ousel.oauth.endpoints import OauthEndpoints
from ousel.oauth.pages import ConnectPages
from ousel.oauth.token_lookup import UserTokenLookup
from ousel.oauth.user_endpoints import UserEndpoints
from ousel.observation.logs import log_to_standard_error
from ousel.observation.telemetry import Telemetry
from ousel.partners.api_errors import ApiErrorLog
from ousel.partners.key_lookup import PartnerKeyLookup
from ousel.people.service import SignInService
from ousel.people.session_lookup import SessionLookup
from ousel.portal.activity import ActivityPages
from ousel.portal.app_addresses import AddressPages
from ousel.portal.app_editor import AppEditor
from ousel.portal.apps import AppPages
from ousel.portal.charges import ChargePages
from ousel.portal.connections import ConnectionPages
from ousel.portal.keys import KeyPages
from ousel.portal.settings import SettingsPages
from ousel.portal.sign_in import SignInPages
from ousel.sandbox.clock import REFRESH_SECONDS, SandboxClock
from ousel.sandbox.endpoints import SandboxEndpoints
from ousel.site.assets import Assets
from ousel.site.cookies import Cookies
from ousel.site.rendering import PageRenderer
from ousel.site.server import PageServer
from ousel.transfers.endpoints import TransferEndpoints

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
        real_clock, clock = clock, self._sandbox_clock or clock
        self._telemetry = Telemetry(settings, clock, processes)
        self._posting_queue = PostingQueue(
            self.database,
            clock,
            queue_limit=settings.queue_limit,
            observer=self._telemetry.posting_observer,
        )
        self._partner_keys = PartnerKeyLookup(self.database, clock, kind=settings.secret_kind)
        self._user_tokens = UserTokenLookup(self.database, clock, kind=settings.secret_kind)
        self._charges = ChargeService(
            self.database, self._posting_queue, clock, self._telemetry.charge_observer
        )
        self._api_errors = ApiErrorLog(self.database, clock)
        authenticator = ApiAuthenticator(self._partner_keys, self._user_tokens, settings)
        client_authenticator = ClientAuthenticator(
            self._partner_keys, authenticator, self._api_errors
        )
        base = settings.base_path
        routes = [
            *AccountEndpoints(self.database).routes(base),
            *TransferEndpoints(self.database, self._posting_queue, clock).routes(base),
            *ChargeEndpoints(self._charges, settings.portal_url).routes(base),
            *OauthEndpoints(self.database, client_authenticator, settings, clock).routes(),
            *UserEndpoints(self.database).routes(base),
        ]
        if self._sandbox_clock is not None:
            routes += SandboxEndpoints(
                self.database,
                self._sandbox_clock,
                self._posting_queue,
                self._charges,
                settings.portal_url,
            ).routes(base)
        self.openapi = openapi_document(routes, settings, version("ousel"))
        assets = Assets()
        pages = PageRenderer(settings, assets, packages=("charges", "docs", "oauth", "portal"))
        reference = ApiReference(self.openapi, routes, pages)
        routes += reference.routes(base)
        self._health = Health(self.database, settings.database_url)
        routes += self._health.routes()
        routes += StaticFiles(assets.files).routes()
        page_server = PageServer(SessionLookup(self.database, clock), pages, settings)
        self._sign_in = SignInService(self.database, clock, real_clock)
        page_routes = self._page_routes(pages, reference, page_server.cookies, clock)
        self.routes: list[Route | PageRoute] = [*routes, *page_routes]
        self.respond = Router(
            self.routes,
            authenticator,
            EndpointServer(authenticator, self._api_errors),
            page_server,
            settings,
            self._telemetry.request_observers,
        ).respond

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Start with the server and stop with it; connections ask for responses themselves."""
        assert scope["type"] == "lifespan"
        await receive()
        try:
            async with self.running():
                tune_garbage_collector()
                await send({"type": "lifespan.startup.complete"})
                with on_stop_signal(self._charges.notifier.stop):
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
                (SWEPT_SECONDS, self._sign_in.attempts.sweep),
            )
        ]
        try:
            async with self._telemetry.open(self.database, self._posting_queue, self._health):
                try:
                    yield
                finally:
                    await self._posting_queue.close()
        finally:
            for chore in chores:
                chore.cancel()
            await asyncio.gather(*chores, return_exceptions=True)
            await asyncio.gather(*map(_tried, self._writes_behind()))
            await self.database.close()

    def _page_routes(
        self, pages: PageRenderer, reference: ApiReference, cookies: Cookies, clock: Clock
    ) -> "list[PageRoute]":
        app_editor = AppEditor(pages, self.database, clock)
        return [
            *Documents(pages, reference.operations).page_routes(),
            *reference.page_routes(),
            *SignInPages(pages, self._sign_in, cookies).routes(),
            *ActivityPages(pages, self.database).routes(),
            *AppPages(app_editor).routes(),
            *KeyPages(app_editor, self.settings).routes(),
            *AddressPages(app_editor).routes(),
            *ChargePages(pages, self.database, self._charges).routes(),
            *CheckoutPages(
                pages, self.database, self._charges, self.settings.portal_url, clock
            ).routes(),
            *ConnectPages(pages, self.database, self.settings, clock).routes(),
            *ConnectionPages(pages, self.database, clock).routes(),
            *SettingsPages(pages, self.database, self._sign_in, clock).routes(),
        ]

    def _writes_behind(self) -> tuple[Chore, ...]:
        """Return what writes down that which was gathered in memory."""
        return self._partner_keys.record_uses, self._api_errors.write, self._user_tokens.record_uses

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
