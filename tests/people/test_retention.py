"""Tables about people do not grow for ever, not even for accounts that nobody uses."""

from ousel.database.port import Database
from ousel.emails.service import PendingConfirmations
from ousel.people.retention import AUDIT_DAYS, BROWSER_DAYS, RetentionService
from ousel.people.rules import SESSION_SECONDS
from tests.people.members import LAPTOP, Member
from tests.support.clock import ManualClock
from tests.support.raw_sql import RawSql
from tests.support.visitor import PASSWORD

DAY_SECONDS = 24 * 3600


async def test_what_is_too_old_is_deleted(
    ada: Member,
    database: Database,
    clock: ManualClock,
    raw_sql: RawSql,
    pending_confirmations: PendingConfirmations,
) -> None:
    """Expired sessions and confirmations, unused browsers and events of years ago; nothing else."""
    await ada.sign_in.sign_in("ada", PASSWORD, LAPTOP)
    retention = RetentionService(database, clock, pending_confirmations)
    assert await retention.sweep() == 0
    confirmations = "SELECT COUNT(*) FROM email_proofs"
    assert await raw_sql.run(confirmations) == [(1,)]

    clock.advance(seconds=SESSION_SECONDS)
    assert await _rows(retention, raw_sql) == {"sessions": 0, "known_browsers": 1, "events": 2}
    assert await raw_sql.run(confirmations) == [(0,)]
    clock.advance(seconds=BROWSER_DAYS * DAY_SECONDS)
    assert await _rows(retention, raw_sql) == {"sessions": 0, "known_browsers": 0, "events": 2}
    clock.advance(seconds=AUDIT_DAYS * DAY_SECONDS)
    assert await _rows(retention, raw_sql) == {"sessions": 0, "known_browsers": 0, "events": 0}


async def _rows(retention: RetentionService, raw_sql: RawSql) -> dict[str, int]:
    """Sweep, and return how many rows are left."""
    await retention.sweep()
    tables = {"sessions": "sessions", "known_browsers": "known_browsers", "events": "audit_events"}
    return {
        name: (await raw_sql.run(f"SELECT COUNT(*) FROM {table}"))[0][0]
        for name, table in tables.items()
    }
