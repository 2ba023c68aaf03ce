"""Commands and clocks: a wrong clock of the host, and entries that are dated in the future."""

import time

import pytest

from ousel.cli.verification import verify_everything
from ousel.database.clock import SKEW_SECONDS_MAX
from ousel.database.port import Database
from ousel.kernel.clock import system_clock, timestamp
from ousel.ledger.verify import VerificationFailed
from ousel.sandbox.clock import SandboxClock
from tests.cli.commands import assert_fails, ousel
from tests.support.accounts import person
from tests.support.clock import ManualClock

HOUR = 3600
NANOS_PER_SECOND = 1_000_000_000
WRITING: tuple[tuple[str, ...], ...] = (
    ("account", "create", "--username", "bob", "--email", "bob@example.com", "--name", "Bob"),
    ("account", "fund", "@ada", "1"),
    ("account", "redeem", "@ada", "1"),
    ("account", "freeze", "@ada"),
    ("account", "unfreeze", "@ada"),
    ("app", "create", "--owner", "@ada", "--name", "App"),
    ("key", "issue", "app_1"),
    ("key", "rotate", "sk_live_1"),
    ("key", "revoke", "sk_live_1"),
    ("migrate",),
)
READING: tuple[tuple[str, ...], ...] = (("account", "list"), ("verify",))


@pytest.fixture
def host_seconds_ahead(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> int:
    """Shift the clock of this process by the seconds of the test's parameter."""
    right, seconds = time.time_ns, int(request.param)
    monkeypatch.setattr(time, "time_ns", lambda: right() + seconds * NANOS_PER_SECOND)
    return seconds


@pytest.mark.parametrize("host_seconds_ahead", [HOUR, -HOUR], indirect=True)
def test_commands_that_write_refuse_on_a_host_whose_clock_is_wrong(
    postgres_url: str, host_seconds_ahead: int
) -> None:
    """Each says in one line which clock is ahead; those that read work as usual."""
    direction = "ahead of" if host_seconds_ahead > 0 else "behind"

    for command in WRITING:
        assert_fails(ousel(*command, database=postgres_url), f"seconds {direction} that of the")
    for command in READING:
        assert ousel(*command, database=postgres_url).exit_code == 0


@pytest.mark.parametrize("host_seconds_ahead", [4], indirect=True)
def test_a_few_seconds_are_tolerated(postgres_url: str, host_seconds_ahead: int) -> None:
    """Clocks that are kept by a time server differ by far less."""
    assert host_seconds_ahead < SKEW_SECONDS_MAX
    assert ousel(*WRITING[0], database=postgres_url).exit_code == 0


async def test_verify_reports_entries_that_are_dated_in_the_future(database: Database) -> None:
    """It names the first of them, unless it is within the tolerated minute or a sandbox's time."""
    ahead = ManualClock()
    await person(database, "ada", "1", ahead)
    ahead.advance(seconds=HOUR)
    await person(database, "bob", "1", ahead)

    with pytest.raises(VerificationFailed, match=r"entry 2 of account .* is dated") as error:
        await database.snapshot(verify_everything)
    await SandboxClock(database, system_clock).advance(HOUR)
    totals, _ = await database.snapshot(verify_everything)

    assert f"{timestamp(ahead())}, which is ahead of the clock; 2 such entries" in str(error.value)
    assert totals.entries == 4
