"""The whole service: it responds to requests, and starts and stops with its process."""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from functools import cached_property
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

from ousel.api.authentication import ApiAuthenticator
from ousel.api.health import Health
from ousel.api.openapi import openapi_document
from ousel.api.router import Router
from ousel.api.static_files import StaticFiles
from ousel.app.api_routes import api_routes, make_endpoint_server
from ousel.app.background_tasks import BackgroundTasks
from ousel.app.page_routes import page_routes
from ousel.app.services import Services
from ousel.database.addresses import database_at
from ousel.database.clock import clock_of
from ousel.docs.documents import Documents
from ousel.docs.reference import ApiReference
from ousel.docs.trial import Trials
from ousel.kernel.clock import Clock
from ousel.kernel.errors import Refusal
from ousel.kernel.garbage_collection import tune_garbage_collector
from ousel.kernel.settings import Settings
from ousel.observation.gauges import GaugeReader
from ousel.portal.docs_keys import SessionDocsKeys
from ousel.portal.identity_check import IdentityCheckPages
from ousel.sealed_log.endpoints import LogEndpoints
from ousel.sealed_log.keys import LogKeyUnusable
from ousel.site.assets import Assets
from ousel.site.cookies import Cookies
from ousel.site.page_server import PageServer
from ousel.site.rendering import PageRenderer

if TYPE_CHECKING:
    from ousel.api.route import Route
    from ousel.site.visits import PageRoute

TEMPLATE_PACKAGES: Final = ("charges", "docs", "lab", "oauth", "portal", "sandbox", "transfers")

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class Ousel:
    """The whole service: it responds to requests, and opens and closes what it needs."""

    def __init__(
        self, settings: Settings, clock: Clock | None = None, *, processes: int = 1
    ) -> None:
        """Create the service, opening nothing yet; `processes` is how many serve together.

        A test may give it another clock than that of the database.
        """
        self.settings = settings
        self._processes = processes
        self.database = database_at(settings.database_url)
        self.database_clock = clock_of(self.database, settings.database_url)
        self.services = services = Services(
            settings, self.database, clock or self.database_clock, processes
        )
        self._background_tasks = BackgroundTasks(services, self.database_clock)
        self._health = Health(self.database, settings.database_url, self.database_clock)
        authenticator = ApiAuthenticator(services.key_lookup, services.token_lookup, settings)
        self._operations = api_routes(services, authenticator, settings)
        assets = Assets()
        pages = PageRenderer(settings, assets, packages=TEMPLATE_PACKAGES)
        identity_checks = IdentityCheckPages(pages, services.identity_checks)
        page_server = PageServer(
            services.session_lookup,
            identity_checks,
            pages,
            settings,
            has_page=self._has_page,
        )
        trials = self._make_trials(page_server.cookies) if settings.sandbox else None
        reference = ApiReference(lambda: self.openapi, self._operations, pages, trials)
        self.routes: list[Route | PageRoute] = [
            *self._operations,
            *reference.routes(settings.base_path),
            *self._health.routes(),
            *StaticFiles(assets.files, assets.versions).routes(),
            *LogEndpoints(services.log).routes(),
            *Documents(pages, reference).page_routes(),
            *reference.page_routes(),
            *identity_checks.routes(),
            *page_routes(services, settings, pages, page_server.cookies),
        ]
        self._router = Router(
            self.routes,
            authenticator,
            make_endpoint_server(services, authenticator, settings),
            page_server,
            settings,
            services.telemetry.request_observers,
        )
        self.respond = self._router.respond
        self.give_up = self._router.give_up

    def _has_page(self, path: str) -> bool:
        """Return whether a browser can open this path."""
        return self._router.has_page(path)

    def _make_trials(self, cookies: Cookies) -> Trials:
        """Return what runs the calls that people try in the API reference, on this service."""
        keys = SessionDocsKeys(self.services.keys, self.services.apps, cookies)
        return Trials(keys, self)

    @cached_property
    def openapi(self) -> dict[str, Any]:
        """The OpenAPI document, built on its first request, to keep the start fast."""
        return openapi_document(self._operations, self.settings, version("ousel"))

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Start and stop with the ASGI server; connections call `respond` themselves."""
        assert scope["type"] == "lifespan"
        await receive()
        try:
            async with self.running():
                tune_garbage_collector()
                await send({"type": "lifespan.startup.complete"})
                await receive()
        except (Refusal, LogKeyUnusable) as error:
            await send({"type": "lifespan.startup.failed", "message": str(error)})
            return
        await send({"type": "lifespan.shutdown.complete"})

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Keep the service open until the block ends; then write all that is still waiting."""
        services = self.services
        await self.database.open()
        try:
            await services.log.key_holder.read(self.database)
            await services.log.checkpoint_recorder.check()
            await self._background_tasks.start()
            gauge_reader = GaugeReader(
                self.database,
                services.clock,
                self.database_clock,
                services.posting_queue,
                services.outbox,
                self._processes,
            )
            async with services.telemetry.open(gauge_reader, self._health):
                try:
                    yield
                finally:
                    await services.posting_queue.close()
        finally:
            await self._background_tasks.stop()
            await self.database.close()
