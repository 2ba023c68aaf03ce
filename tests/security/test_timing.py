"""What a refusal costs does not tell whether a key or an account exists.

Each test takes its samples in turns, so that whatever else the machine does touches both alike,
and compares the least processor times. Unlike time on the clock, processor time hardly grows while
the machine is busy with other things, and where it grows, the least sample shows least of it.
Each test is also shown to notice a leak that is planted.
"""

import hashlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable

import httpx2
import msgspec
import pytest
from argon2 import PasswordHasher

from ousel.accounts.service import NewHolder
from ousel.database.port import Database
from ousel.emails.service import PendingConfirmations
from ousel.kernel.clock import system_clock
from ousel.kernel.settings import Settings
from ousel.mail.outbox import Outbox
from ousel.people import passwords
from ousel.people.attempts import AttemptCounter
from ousel.people.audit import EventSource
from ousel.people.factor_secrets import FactorSecrets
from ousel.people.notices import EventNotices
from ousel.people.second_factor import SecondFactorService
from ousel.people.secret_file import SecretFile
from ousel.people.sign_in import SignInService, WrongPassword
from tests.support.accounts import partner
from tests.support.engines import Engine
from tests.support.in_process import in_process_client

pytestmark = pytest.mark.slow

KEY_SAMPLES = 100
SIGN_IN_SAMPLES = 6
ROUNDS_MAX = 12
DIFFERENCE_MAX = 0.15  # of the least cost
PASSWORD = "correct horse battery"

Deed = Callable[[], Awaitable[object]]


async def difference(first: Deed, second: Deed, samples: int, rounds: int = ROUNDS_MAX) -> float:
    """Return by what part of it the least cost of the one differs from that of the other.

    A machine that is busy with other things may tell them apart by chance: the least of a few
    rounds counts, and a leak is there in every one of them.
    """
    for deed in (first, second):  # whatever is made ready on first use is ready
        await deed()
    found = await _difference(first, second, samples)
    for _ in range(rounds - 1):
        if found < DIFFERENCE_MAX:
            break
        found = min(found, await _difference(first, second, samples))
    return found


async def _difference(first: Deed, second: Deed, samples: int) -> float:
    times: tuple[list[float], list[float]] = ([], [])
    for number in range(samples):
        pair = [(first, times[0]), (second, times[1])]
        for deed, taken in pair if number % 2 else reversed(pair):
            started = time.process_time()
            await deed()
            taken.append(time.process_time() - started)
    least = [min(taken) for taken in times]
    return abs(least[0] - least[1]) / min(least)


class RefusedKeyCalls(msgspec.Struct, frozen=True):
    """Calls with an unknown key, and with a key whose last character is wrong."""

    client: httpx2.AsyncClient
    key: str

    async def unknown(self) -> None:
        """Call with a key whose handle nobody has."""
        await self._refused(self.key[:8] + self.key[8:][::-1])

    async def almost(self) -> None:
        """Call with a key of which only the last character is wrong."""
        await self._refused(self.key[:-1] + ("1" if self.key[-1] == "0" else "0"))

    async def _refused(self, key: str) -> None:
        answer = await self.client.get("/me", headers={"Authorization": f"Bearer {key}"})
        assert answer.status_code == 401


@pytest.fixture
async def calls(database: Database, database_url: str) -> AsyncIterator[RefusedKeyCalls]:
    """A service with one partner."""
    key = (await partner(database, "shop"))[2]
    async with in_process_client(database_url) as client:
        yield RefusedKeyCalls(client, key)


async def test_a_refused_key_does_not_tell_whether_it_nearly_exists(
    calls: RefusedKeyCalls, engine: Engine, record_property: Callable[[str, str], None]
) -> None:
    """An unknown key and one that is almost right are refused at the same cost."""
    found = await difference(calls.unknown, calls.almost, KEY_SAMPLES)

    record_property("figure", f"{engine}: costs of refused keys differ by {found:.1%}")
    assert found < DIFFERENCE_MAX


@pytest.mark.parametrize("engine", ["sqlite"])
async def test_a_key_that_is_compared_slowly_is_noticed(
    calls: RefusedKeyCalls, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The planted leak: a key whose handle is found costs a slow hash."""

    def slowly(stored: str, digest: str) -> bool:
        hashlib.pbkdf2_hmac("sha256", b"the leak", b"", 10_000)
        return stored == digest

    monkeypatch.setattr("ousel.kernel.ids.hmac.compare_digest", slowly)

    found = await difference(calls.unknown, calls.almost, KEY_SAMPLES // 4, rounds=1)

    assert found > DIFFERENCE_MAX


class SignInAttempts:
    """Attempts to sign in, each from another address, so that no limit is met."""

    def __init__(self, sign_in: SignInService) -> None:
        self._sign_in = sign_in
        self._attempts = 0

    async def existing(self) -> None:
        """Try an account that exists, with a wrong password."""
        await self._refused("ada")

    async def nobody(self) -> None:
        """Try an account that does not exist."""
        await self._refused("eve")

    async def _refused(self, name: str) -> None:
        self._attempts += 1
        source = EventSource(f"192.0.2.{self._attempts % 250}", "Firefox")
        with pytest.raises(WrongPassword):
            await self._sign_in.sign_in(name, "wrong horse battery", source)


@pytest.fixture
async def sign_in_attempts(database: Database) -> SignInAttempts:
    """Sign-ins on a database with one account; passwords are hashed at full cost."""
    attempts = AttemptCounter(database, system_clock)
    outbox = Outbox(database, system_clock, Settings())
    notices = EventNotices(outbox, system_clock)
    secrets = FactorSecrets(database, SecretFile(None, may_create=False))
    factors = SecondFactorService(database, system_clock, system_clock, attempts, notices, secrets)
    confirmations = PendingConfirmations(outbox, system_clock, "https://pay.example")
    sign_in = SignInService(database, system_clock, attempts, factors, confirmations, notices)
    holder = NewHolder(username="ada", email="ada@example.com", display_name="Ada")
    await sign_in.sign_up(holder, PASSWORD, EventSource("192.0.2.1", "Firefox"))
    return SignInAttempts(sign_in)


@pytest.mark.parametrize("engine", ["sqlite"])  # the hash costs more than any query
async def test_a_refused_sign_in_does_not_tell_whether_the_account_exists(
    sign_in_attempts: SignInAttempts, record_property: Callable[[str, str], None]
) -> None:
    """A wrong password and an unknown name are refused at the same cost."""
    found = await difference(sign_in_attempts.existing, sign_in_attempts.nobody, SIGN_IN_SAMPLES)

    record_property("figure", f"costs of refused sign-ins differ by {found:.1%}")
    assert found < DIFFERENCE_MAX


@pytest.mark.parametrize("engine", ["sqlite"])
async def test_a_cheaper_comparison_for_nobody_is_noticed(
    sign_in_attempts: SignInAttempts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The planted leak: a name that nobody has costs a hash of one round instead of three."""
    cheaper = PasswordHasher(time_cost=1).hash("nobody has this password")
    monkeypatch.setattr(passwords, "_decoy_hash", lambda: cheaper)

    found = await difference(
        sign_in_attempts.existing, sign_in_attempts.nobody, SIGN_IN_SAMPLES, rounds=1
    )

    assert found > DIFFERENCE_MAX
