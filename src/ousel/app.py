"""The composition root: the only place that connects the packages with each other."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from functools import cached_property
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

import structlog

from ousel.accounts.endpoints import AccountEndpoints
from ousel.accounts.service import AccountService
from ousel.api.authentication import ApiAuthenticator
from ousel.api.endpoint_server import EndpointServer
from ousel.api.health import Health
from ousel.api.openapi import openapi_document
from ousel.api.polling import limit_partner_waits
from ousel.api.router import Router
from ousel.api.static_files import StaticFiles
from ousel.charges.checkout import CheckoutService
from ousel.charges.endpoints import ChargeEndpoints
from ousel.charges.pages import CheckoutPages
from ousel.charges.payment import ChargePayments
from ousel.charges.service import ChargeService
from ousel.database.addresses import database_at
from ousel.database.clock import MEASURE_SECONDS, clock_of
from ousel.database.port import Database
from ousel.docs.documents import Documents
from ousel.docs.reference import ApiReference
from ousel.emails.service import EmailProofs
from ousel.http.shutdown import on_stop_signal, stop_with_parent
from ousel.kernel.clock import Clock
from ousel.kernel.errors import Refusal
from ousel.kernel.garbage_collection import tune_garbage_collector
from ousel.kernel.mail_servers import mail_server_at
from ousel.kernel.settings import Settings
from ousel.lab.endpoints import LabEndpoints
from ousel.lab.events import LabEvents
from ousel.lab.pages import LabPages
from ousel.lab.server import LabServer
from ousel.lab.service import LabService
from ousel.ledger.following import HistoryFollower
from ousel.ledger.queue import PostingQueue
from ousel.ledger.search import HistorySearch
from ousel.mail.outbox import Outbox
from ousel.mail.sender import SEND_SECONDS, MailSender
from ousel.mail.smtp import SmtpClient
from ousel.oauth.client_authentication import ClientAuthenticator
from ousel.oauth.connect import ConnectService
from ousel.oauth.endpoints import OauthEndpoints
from ousel.oauth.pages import ConnectPages
from ousel.oauth.service import ConnectionService, TokenService
from ousel.oauth.token_lookup import UserTokenLookup
from ousel.oauth.user_endpoints import UserEndpoints
from ousel.observation.gauges import GaugeReader
from ousel.observation.logs import log_to_standard_error
from ousel.observation.telemetry import Telemetry
from ousel.partners.api_errors import ApiErrorLog
from ousel.partners.app_service import AppService
from ousel.partners.key_lookup import PartnerKeyLookup
from ousel.partners.key_service import KeyService
from ousel.passkeys.service import Passkeys
from ousel.people.account_settings import AccountSettingsService
from ousel.people.attempts import AttemptCounter
from ousel.people.email_confirmation import EmailConfirmationService
from ousel.people.factor_secrets import FactorSecrets
from ousel.people.identity_check import IdentityCheckService
from ousel.people.notices import EventNotices, MoneyNotices
from ousel.people.passkey_sign_in import PasskeySignInService
from ousel.people.passkeys import PasskeyService
from ousel.people.recovery import RecoveryService
from ousel.people.retention import RetentionService
from ousel.people.second_factor import SecondFactorService
from ousel.people.secret_file import secret_file_of
from ousel.people.session_lookup import SessionLookup
from ousel.people.sign_in import SignInService
from ousel.portal.activity import ActivityPages
from ousel.portal.app_addresses import AddressPages
from ousel.portal.app_editor import AppEditor
from ousel.portal.app_overview import AppOverviewService
from ousel.portal.apps import AppPages
from ousel.portal.charges import ChargePages
from ousel.portal.connections import ConnectionPages
from ousel.portal.emails import EmailPages
from ousel.portal.identity_check import IdentityCheckPages
from ousel.portal.keys import KeyPages
from ousel.portal.passkeys import PasskeyPages
from ousel.portal.recovery import RecoveryPages
from ousel.portal.settings import SettingsPages
from ousel.portal.sign_in import SignInPages
from ousel.portal.verify import VerifyPages
from ousel.sandbox.clock import REFRESH_SECONDS, SandboxClock
from ousel.sandbox.endpoints import SandboxEndpoints
from ousel.sandbox.pages import SandboxPages
from ousel.sealed_log.cosigning import OFFER_SECONDS
from ousel.sealed_log.endpoints import LogEndpoints
from ousel.sealed_log.keys import LogKeyUnusable
from ousel.sealed_log.log import SealedLog
from ousel.sealed_log.sealer import TICK_SECONDS
from ousel.site.assets import Assets
from ousel.site.cookies import Cookies
from ousel.site.page_server import PageServer
from ousel.site.rendering import PageRenderer
from ousel.transfers.endpoints import TransferEndpoints
from ousel.transfers.pages import SendPages
from ousel.transfers.receipt_endpoints import ReceiptEndpoints
from ousel.transfers.receipts import ReceiptService
from ousel.transfers.sending import SendService

if TYPE_CHECKING:
    from ousel.api.route import Route
    from ousel.site.visits import PageRoute

WRITE_BEHIND_SECONDS: Final = 5.0
SWEEP_SECONDS: Final = 60.0
TEMPLATE_PACKAGES: Final = ("charges", "docs", "lab", "oauth", "portal", "sandbox", "transfers")

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
BackgroundTask = Callable[[], Awaitable[Any]]

_log = structlog.get_logger()


class Services:
    """The services of one process, which endpoints and pages share."""

    def __init__(
        self, settings: Settings, database: Database, real_clock: Clock, processes: int
    ) -> None:
        """Create and connect the services, without opening anything yet."""
        self.sandbox_clock = SandboxClock(database, real_clock) if settings.sandbox else None
        self.clock = clock = self.sandbox_clock or real_clock
        self.telemetry = Telemetry(settings, clock, processes)
        self.outbox = Outbox(database, clock, settings)
        # Sign-in attempts are counted by the real clock: whoever advances a sandbox's clock must
        # not get around the limits.
        self.attempts = AttemptCounter(database, real_clock)
        self.posting_queue = PostingQueue(
            database,
            clock,
            queue_limit=settings.queue_limit,
            charge_rows=ChargePayments(),
            notices=MoneyNotices(self.outbox, self.attempts),
            observer=self.telemetry.posting_observer,
        )
        self.history = HistorySearch(database)
        self.log = SealedLog(settings, database, self.posting_queue, clock)
        self.receipts = ReceiptService(self.history, self.log)
        self.sending = SendService(database, self.posting_queue, clock)
        self.accounts = AccountService(database, clock)
        self.mail_sender = _make_mail_sender(settings, database, clock, self.telemetry)
        notices = EventNotices(self.outbox, clock)
        self._add_people(settings, database, real_clock, notices)
        self.apps = AppService(database, clock)
        self.app_overviews = AppOverviewService(database, clock)
        self.keys = KeyService(database, clock, notices, mode=settings.mode)
        self.partner_keys = PartnerKeyLookup(database, clock, mode=settings.mode)
        self.api_errors = ApiErrorLog(database, clock)
        self.connect = ConnectService(database, clock, notices, issuer=settings.portal_url)
        self.connections = ConnectionService(database, clock)
        self.tokens = TokenService(database, clock, mode=settings.mode)
        self.user_tokens = UserTokenLookup(database, clock, mode=settings.mode)
        self.charges = ChargeService(
            database, self.posting_queue, clock, self.telemetry.charge_observer
        )
        self.checkouts = CheckoutService(database, self.receipts)

    def _add_people(
        self, settings: Settings, database: Database, real_clock: Clock, notices: EventNotices
    ) -> None:
        """Create and connect the services for signing in."""
        clock = self.clock
        email_proofs = EmailProofs(self.outbox, clock, settings.portal_url)
        self.retention = RetentionService(database, real_clock, email_proofs)
        factor_secrets = FactorSecrets(database, secret_file_of(settings))
        self.second_factors = SecondFactorService(
            database, clock, real_clock, self.attempts, notices, factor_secrets
        )
        self.sign_in = SignInService(
            database, clock, self.attempts, self.second_factors, email_proofs, notices
        )
        self.recovery = RecoveryService(
            database, clock, self.attempts, self.outbox, notices, self.sign_in.passwords
        )
        self.passkeys = PasskeyService(
            database, clock, self.attempts, Passkeys(clock, settings.portal_url), notices
        )
        self.passkey_sign_in = PasskeySignInService(database, self.passkeys, self.sign_in)
        self.identity_checks = IdentityCheckService(
            database, clock, self.sign_in.password_check, self.second_factors, self.passkeys
        )
        self.emails = EmailConfirmationService(
            database, clock, self.attempts, email_proofs, self.sign_in.password_check
        )
        self.sessions = SessionLookup(database, clock)
        self.account_settings = AccountSettingsService(database, clock)

    def end_waits(self) -> None:
        """Answer everyone who waits for something, because the server is stopping."""
        self.posting_queue.notifier.stop()
        self.log.notifier.stop()
        self.charges.notifier.stop()


class Ousel:
    """The whole service: it responds to requests, and opens and closes what it needs."""

    def __init__(
        self, settings: Settings, clock: Clock | None = None, *, processes: int = 1
    ) -> None:
        """Create the service, opening nothing yet; `processes` is how many serve together.

        A test may give it another clock than that of the database.
        """
        self.settings = settings
        self.database = database_at(settings.database_url)
        self.database_clock = clock_of(self.database, settings.database_url)
        self.services = services = Services(
            settings, self.database, clock or self.database_clock, processes
        )
        self._lab = LabService(self.database, clock or self.database_clock)
        self._health = Health(self.database, settings.database_url, self.database_clock)
        authenticator = ApiAuthenticator(services.partner_keys, services.user_tokens, settings)
        self._operations = self._api_routes(authenticator)
        assets = Assets()
        pages = PageRenderer(settings, assets, packages=TEMPLATE_PACKAGES)
        identity_checks = IdentityCheckPages(pages, services.identity_checks)
        page_server = PageServer(services.sessions, identity_checks, pages, settings)
        reference = ApiReference(lambda: self.openapi, self._operations, pages)
        self.routes: list[Route | PageRoute] = [
            *self._operations,
            *reference.routes(settings.base_path),
            *self._health.routes(),
            *StaticFiles(assets.files).routes(),
            *LogEndpoints(services.log).routes(),
            *Documents(pages, reference).page_routes(),
            *reference.page_routes(),
            *identity_checks.routes(),
            *self._page_routes(pages, page_server.cookies),
        ]
        self.respond = Router(
            self.routes,
            authenticator,
            self._endpoint_server(authenticator),
            page_server,
            settings,
            services.telemetry.request_observers,
        ).respond

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
                with on_stop_signal(self.services.end_waits):
                    await receive()
        except (Refusal, LogKeyUnusable) as error:
            await send({"type": "lifespan.startup.failed", "message": str(error)})
            return
        await send({"type": "lifespan.shutdown.complete"})

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Keep the service open until the block ends; then write all that is still waiting."""
        services = self.services
        services.log.key.read()
        await self.database.open()
        background_tasks = await self._start_background_tasks()
        try:
            gauge_reader = GaugeReader(
                self.database, self.database_clock, services.posting_queue, services.outbox
            )
            async with services.telemetry.open(gauge_reader, self._health):
                try:
                    yield
                finally:
                    await services.posting_queue.close()
        finally:
            for task in background_tasks:
                task.cancel()
            await asyncio.gather(*background_tasks, return_exceptions=True)
            await asyncio.gather(*map(_run_once, self._write_behind_tasks()))
            await self.database.close()

    def _endpoint_server(self, authenticator: ApiAuthenticator) -> EndpointServer | LabServer:
        """Return the endpoint server; that of a sandbox can rehearse failures."""
        services, settings = self.services, self.settings
        endpoints = EndpointServer(authenticator, services.api_errors, is_sandbox=settings.sandbox)
        if services.sandbox_clock is None:
            return endpoints
        events = LabEvents(
            services.accounts, services.charges, services.posting_queue, services.sandbox_clock
        )
        return LabServer(endpoints, authenticator, self._lab, events, settings.base_path)

    def _api_routes(self, authenticator: ApiAuthenticator) -> "list[Route]":
        """Return the routes of the API."""
        base, services = self.settings.base_path, self.services
        clients = ClientAuthenticator(services.partner_keys, authenticator, services.api_errors)
        waits = limit_partner_waits()
        follower = HistoryFollower(self.database, services.history, services.posting_queue.notifier)
        transfers = TransferEndpoints(
            services.posting_queue, services.history, follower, waits, services.clock
        )
        routes = [
            *AccountEndpoints(services.accounts).routes(base),
            *transfers.routes(base),
            *ReceiptEndpoints(services.receipts, waits).routes(base),
            *ChargeEndpoints(services.charges, waits, self.settings.portal_url).routes(base),
            *OauthEndpoints(services.tokens, clients, self.settings).routes(),
            *UserEndpoints(services.accounts).routes(base),
        ]
        if services.sandbox_clock is not None:
            routes += SandboxEndpoints(
                services.accounts,
                services.sandbox_clock,
                services.posting_queue,
                services.charges,
                services.outbox,
                self.settings.portal_url,
            ).routes(base)
            routes += LabEndpoints(self._lab, self.settings.portal_url).routes(base)
        return routes

    def _page_routes(self, pages: PageRenderer, cookies: Cookies) -> "list[PageRoute]":
        services, clock = self.services, self.services.clock
        editor = AppEditor(pages, services.app_overviews)
        checkout = CheckoutPages(pages, services.checkouts, services.charges, self.settings, clock)
        settings = SettingsPages(
            pages, services.account_settings, services.sign_in, services.second_factors
        )
        sandbox_pages = [
            *SandboxPages(pages, services.outbox).routes(),
            *LabPages(pages, self._lab, self.settings).routes(),
        ]
        return [
            *(sandbox_pages if self.settings.sandbox else []),
            *SignInPages(pages, services.sign_in, services.passkey_sign_in, cookies).routes(),
            *RecoveryPages(pages, services.recovery).routes(),
            *PasskeyPages(pages, services.passkeys, services.account_settings).routes(),
            *EmailPages(pages, services.emails).routes(),
            *ActivityPages(
                pages,
                services.history,
                services.receipts,
                services.emails,
                self.settings.portal_url,
            ).routes(),
            *SendPages(pages, services.sending, clock, self.settings.confirm_sending_over).routes(),
            *AppPages(pages, services.apps, services.app_overviews, editor).routes(),
            *KeyPages(pages, services.keys, editor, clock).routes(),
            *AddressPages(services.apps, editor).routes(),
            *ChargePages(pages, services.apps, services.charges, services.checkouts).routes(),
            *checkout.routes(),
            *ConnectPages(pages, services.connect, clock).routes(),
            *VerifyPages(pages, services.log).routes(),
            *ConnectionPages(pages, services.connections).routes(),
            *settings.routes(),
        ]

    async def _start_background_tasks(self) -> list[asyncio.Task[None]]:
        schedule: list[tuple[float, BackgroundTask]] = [
            *((WRITE_BEHIND_SECONDS, task) for task in self._write_behind_tasks()),
            (SWEEP_SECONDS, self.services.user_tokens.sweep),
            (SWEEP_SECONDS, self.services.attempts.sweep),
            (MEASURE_SECONDS, self.database_clock.measure),
            (SWEEP_SECONDS, self.services.retention.sweep),
            (SWEEP_SECONDS, self.services.outbox.sweep),
            (TICK_SECONDS, self.services.log.sealer.seal_due),
        ]
        schedule += [(OFFER_SECONDS, each.offer_due) for each in self.services.log.cosignings]
        if self.services.mail_sender is not None:
            schedule.append((SEND_SECONDS, self.services.mail_sender.send_due))
        await self.database_clock.measure()
        sandbox_clock = self.services.sandbox_clock
        if sandbox_clock is not None:
            await sandbox_clock.refresh()
            schedule.append((REFRESH_SECONDS, sandbox_clock.refresh))
        return [asyncio.create_task(run_repeatedly(seconds, task)) for seconds, task in schedule]

    def _write_behind_tasks(self) -> tuple[BackgroundTask, ...]:
        """Return the tasks that write to the database what was collected in memory."""
        services = self.services
        return (
            services.partner_keys.record_uses,
            services.api_errors.write,
            services.user_tokens.record_uses,
            services.sessions.record_uses,
        )


def _make_mail_sender(
    settings: Settings, database: Database, clock: Clock, telemetry: Telemetry
) -> MailSender | None:
    """Return the sender of mail; a sandbox, and a server without a mail server, has none."""
    if settings.sandbox or settings.mail_url is None or settings.mail_from is None:
        return None
    client = SmtpClient(mail_server_at(settings.mail_url), settings.mail_from)
    return MailSender(database, clock, client, telemetry.mail_observer)


async def run_repeatedly(seconds: float, task: BackgroundTask) -> None:
    """Run the task again and again, with this pause before each run, until it is canceled.

    A driver may turn a cancellation into another error, so the loop also looks for a request to
    cancel it.
    """
    running = asyncio.current_task()
    assert running is not None
    while not running.cancelling():
        await asyncio.sleep(seconds)
        await _run_once(task)


async def _run_once(task: BackgroundTask) -> None:
    """Run the task; log a failure instead of raising it."""
    try:
        await task()
    except Refusal as refusal:
        _log.warning("background task failed", code=refusal.code)
    except Exception:  # noqa: BLE001 - it is logged, and the other tasks continue
        _log.exception("background task failed")


def in_worker(settings: Settings, processes: int) -> Ousel:
    """Return the service for one of this many worker processes."""
    log_to_standard_error(settings.log_level)
    stop_with_parent()
    return Ousel(settings, processes=processes)
