"""The services of a process, and how they depend on each other."""

from ousel.accounts.service import AccountService
from ousel.charges.checkout import CheckoutService
from ousel.charges.payment import ChargePayments
from ousel.charges.service import ChargeService
from ousel.database.port import Database
from ousel.emails.service import PendingConfirmations
from ousel.kernel.clock import Clock
from ousel.kernel.mail_servers import mail_server_at
from ousel.kernel.settings import Settings
from ousel.lab.service import LabService
from ousel.ledger.following import HistoryFollower
from ousel.ledger.queue import PostingQueue
from ousel.ledger.search import HistorySearch
from ousel.mail.outbox import Outbox
from ousel.mail.sender import MailSender
from ousel.mail.smtp import SmtpClient
from ousel.oauth.connect import ConnectService
from ousel.oauth.service import ConnectionService, TokenService
from ousel.oauth.token_lookup import UserTokenLookup
from ousel.observation.telemetry import Telemetry
from ousel.partners.api_errors import ApiErrorLog
from ousel.partners.app_service import AppService
from ousel.partners.key_lookup import PartnerKeyLookup
from ousel.partners.key_service import KeyService
from ousel.passkeys.service import PasskeyChallenges
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
from ousel.portal.app_overview import AppOverviewService
from ousel.sandbox.clock import SandboxClock
from ousel.sealed_log.log import SealedLog
from ousel.transfers.receipts import ReceiptService
from ousel.transfers.sending import SendService


class Services:
    """The services of one process, which endpoints and pages share."""

    def __init__(
        self, settings: Settings, database: Database, real_clock: Clock, processes: int
    ) -> None:
        """Create and connect the services, without opening anything yet."""
        self.sandbox_clock = (
            SandboxClock(database, real_clock, processes) if settings.sandbox else None
        )
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
        self.follower = HistoryFollower(database, self.history, self.posting_queue.notifier)
        self.log = SealedLog(settings, database, self.posting_queue, clock)
        self.receipts = ReceiptService(self.history, self.log)
        self.sending = SendService(database, self.posting_queue, clock)
        self.accounts = AccountService(database, clock)
        self.mail_sender = _make_mail_sender(settings, database, clock, self.telemetry)
        notices = EventNotices(self.outbox, clock, self.attempts)
        self._add_people(settings, database, real_clock, notices)
        self.apps = AppService(database, clock)
        self.app_overviews = AppOverviewService(database, clock)
        self.keys = KeyService(database, clock, notices, mode=settings.mode)
        self.key_lookup = PartnerKeyLookup(database, clock, mode=settings.mode)
        self.api_errors = ApiErrorLog(database, clock)
        self.connect = ConnectService(database, clock, notices, issuer=settings.portal_url)
        self.connections = ConnectionService(database, clock)
        self.tokens = TokenService(database, clock, mode=settings.mode)
        self.token_lookup = UserTokenLookup(database, clock, mode=settings.mode)
        self.charges = ChargeService(
            database, self.posting_queue, clock, self.telemetry.charge_observer
        )
        self.checkouts = CheckoutService(database, self.receipts)
        self.lab = LabService(database, real_clock)

    def _add_people(
        self, settings: Settings, database: Database, real_clock: Clock, notices: EventNotices
    ) -> None:
        """Create and connect the services for signing in."""
        clock = self.clock
        pending_confirmations = PendingConfirmations(self.outbox, clock, settings.portal_url)
        self.retention = RetentionService(database, real_clock, pending_confirmations)
        factor_secrets = FactorSecrets(database, secret_file_of(settings))
        self.second_factors = SecondFactorService(
            database, clock, real_clock, self.attempts, notices, factor_secrets
        )
        self.sign_in = SignInService(
            database, clock, self.attempts, self.second_factors, pending_confirmations, notices
        )
        self.recovery = RecoveryService(
            database, clock, self.attempts, self.outbox, notices, self.sign_in.passwords
        )
        self.passkeys = PasskeyService(
            database, clock, self.attempts, PasskeyChallenges(clock, settings.portal_url), notices
        )
        self.passkey_sign_in = PasskeySignInService(database, self.passkeys, self.sign_in)
        self.identity_checks = IdentityCheckService(
            database, clock, self.sign_in.password_check, self.second_factors, self.passkeys
        )
        self.emails = EmailConfirmationService(
            database, clock, self.attempts, pending_confirmations, self.sign_in.password_check
        )
        self.session_lookup = SessionLookup(database, clock)
        self.account_settings = AccountSettingsService(database, clock)

    def end_waits(self) -> None:
        """Answer everyone who waits for something, because the server is stopping."""
        self.posting_queue.notifier.stop()
        self.log.notifier.stop()
        self.charges.notifier.stop()


def _make_mail_sender(
    settings: Settings, database: Database, clock: Clock, telemetry: Telemetry
) -> MailSender | None:
    """Return the sender of mail; a sandbox, and a server without a mail server, has none."""
    if settings.sandbox or settings.mail_url is None or settings.mail_from is None:
        return None
    client = SmtpClient(mail_server_at(settings.mail_url), settings.mail_from)
    return MailSender(database, clock, client, telemetry.mail_observer)
