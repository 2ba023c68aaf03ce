"""The services for signing in, with a clock set by hand."""

from pathlib import Path

import pytest

from ousel.database.port import Database
from ousel.emails.service import PendingConfirmations
from ousel.kernel.settings import Settings
from ousel.mail.outbox import Outbox
from ousel.passkeys.service import PasskeyChallenges
from ousel.people.attempts import AttemptCounter
from ousel.people.email_confirmation import EmailConfirmationService
from ousel.people.factor_secrets import FactorSecrets
from ousel.people.notices import EventNotices
from ousel.people.passkey_sign_in import PasskeySignInService
from ousel.people.passkeys import PasskeyService
from ousel.people.recovery import OperatorRecovery, RecoveryService
from ousel.people.second_factor import SecondFactorService
from ousel.people.secret_file import SecretFile
from ousel.people.sign_in import SignInService
from tests.people.keyrings import Keyring
from tests.people.mailboxes import People
from tests.people.members import Member
from tests.people.recoveries import Recovery
from tests.support.clock import ManualClock
from tests.support.passwords import hash_quickly


@pytest.fixture(autouse=True)
def _quick_passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    hash_quickly(monkeypatch)


@pytest.fixture
def attempts(database: Database, clock: ManualClock) -> AttemptCounter:
    """The attempts counted in a fresh database."""
    return AttemptCounter(database, clock)


@pytest.fixture
def secret_file(tmp_path: Path) -> SecretFile:
    """A secret file, which is created when it is needed."""
    return SecretFile(tmp_path / "secret", may_create=True)


@pytest.fixture
def second_factors(
    database: Database,
    clock: ManualClock,
    attempts: AttemptCounter,
    notices: EventNotices,
    secret_file: SecretFile,
) -> SecondFactorService:
    """The second factors of a fresh database."""
    secrets = FactorSecrets(database, secret_file)
    return SecondFactorService(database, clock, clock, attempts, notices, secrets)


@pytest.fixture
def outbox(database: Database, clock: ManualClock) -> Outbox:
    """The outbox of a sandbox, which keeps the messages."""
    return Outbox(database, clock, Settings(sandbox=True))


@pytest.fixture
def notices(outbox: Outbox, clock: ManualClock, attempts: AttemptCounter) -> EventNotices:
    """The notices of a fresh database."""
    return EventNotices(outbox, clock, attempts)


@pytest.fixture
def pending_confirmations(outbox: Outbox, clock: ManualClock) -> PendingConfirmations:
    """The pending confirmations of emails in a fresh database."""
    return PendingConfirmations(outbox, clock, "https://pay.example")


@pytest.fixture
def sign_in(
    database: Database,
    clock: ManualClock,
    attempts: AttemptCounter,
    second_factors: SecondFactorService,
    pending_confirmations: PendingConfirmations,
    notices: EventNotices,
) -> SignInService:
    """The sign-in service of a fresh database."""
    return SignInService(database, clock, attempts, second_factors, pending_confirmations, notices)


@pytest.fixture
def passkeys(
    database: Database, clock: ManualClock, attempts: AttemptCounter, notices: EventNotices
) -> PasskeyService:
    """The passkeys of a fresh database, for https://pay.example."""
    challenges = PasskeyChallenges(clock, "https://pay.example")
    return PasskeyService(database, clock, attempts, challenges, notices)


@pytest.fixture
def passkey_sign_in(
    database: Database, passkeys: PasskeyService, sign_in: SignInService
) -> PasskeySignInService:
    """Signing in with the passkeys of a fresh database."""
    return PasskeySignInService(database, passkeys, sign_in)


@pytest.fixture
async def ada(
    sign_in: SignInService,
    second_factors: SecondFactorService,
    database: Database,
    clock: ManualClock,
) -> Member:
    """Ada, who has signed up."""
    member = Member(sign_in, second_factors, database, clock)
    await member.sign_up()
    return member


@pytest.fixture
def people(
    database: Database,
    clock: ManualClock,
    sign_in: SignInService,
    attempts: AttemptCounter,
    pending_confirmations: PendingConfirmations,
    outbox: Outbox,
) -> People:
    """The services on a fresh database."""
    emails = EmailConfirmationService(
        database, clock, attempts, pending_confirmations, sign_in.password_check
    )
    return People(database, clock, sign_in, emails, outbox)


@pytest.fixture
def keyring(
    ada: Member, passkeys: PasskeyService, passkey_sign_in: PasskeySignInService
) -> Keyring:
    """Ada with an authenticator, and no passkey yet."""
    return Keyring(ada, passkeys, passkey_sign_in)


@pytest.fixture
def recovery(
    database: Database,
    clock: ManualClock,
    attempts: AttemptCounter,
    outbox: Outbox,
    sign_in: SignInService,
    notices: EventNotices,
) -> Recovery:
    """The recovery service of a fresh database."""
    service = RecoveryService(database, clock, attempts, outbox, notices, sign_in.passwords)
    return Recovery(service, OperatorRecovery(database, clock, outbox), outbox, clock)
