"""The rows of sessions, failed attempts, known browsers and audit events."""

from collections.abc import Collection
from typing import Final

import msgspec

from ousel.database.last_uses import Uses
from ousel.database.port import Transaction
from ousel.database.statements import Statement, Table, deletion_of_oldest, deletion_since
from ousel.database.sweeping import delete_all
from ousel.people.rules import AuditEvent, Session

SESSIONS: Final = Table(
    "sessions",
    key=("hash text",),
    columns=(
        "account_id text",
        "stage text",
        "created_at bigint",
        "last_used_at bigint",
        "expires_at bigint",
        "address text",
        "device text",
        "identity_checked_at bigint",
    ),
)
SESSION_USES: Final = Table("sessions", key=("hash text",), columns=("last_used_at bigint",))
AUDIT_EVENTS: Final = Table(
    "audit_events",
    key=("account_id text", "id text"),
    columns=(
        "kind text",
        "detail text",
        "address text",
        "device text",
        "created_at bigint",
    ),
)
KNOWN_BROWSERS: Final = Table(
    "known_browsers",
    key=("account_id text", "browser text"),
    columns=("last_used_at bigint",),
)

_SESSION_COLUMNS: Final = ", ".join(SESSIONS.names)
_AUDIT_COLUMNS: Final = ", ".join(AUDIT_EVENTS.names)

SESSIONS_BY_HASH: Final = Statement(
    "sessions by their hashes", f"SELECT {_SESSION_COLUMNS} FROM sessions WHERE hash = ANY(:hashes)"
)
SESSIONS_OF: Final = Statement(
    "the sessions of an account, last used first",
    f"SELECT {_SESSION_COLUMNS} FROM sessions"
    " WHERE account_id = :account_id AND stage = 'signed_in' AND expires_at > :now"
    " ORDER BY last_used_at DESC, hash LIMIT :limit",
)
LOCK_SESSION: Final = Statement(
    "lock a session",
    "SELECT hash FROM sessions WHERE hash = :hash AND account_id = :account_id FOR UPDATE",
)
RECORD_IDENTITY_CHECK: Final = Statement(
    "record when the person of a session was last checked",
    "UPDATE sessions SET identity_checked_at = :now"
    " WHERE hash = :hash AND account_id = :account_id",
)
DELETE_SESSION: Final = Statement(
    "end a session", "DELETE FROM sessions WHERE hash = :hash AND account_id = :account_id"
)
DELETE_OTHER_SESSIONS: Final = Statement(
    "end an account's other sessions",
    "DELETE FROM sessions WHERE account_id = :account_id AND hash <> :hash",
)
DELETE_SESSIONS_SINCE: Final = deletion_since("end some sessions", SESSIONS, by="expires_at")
FAILURES_OF: Final = Statement(
    "the failures of subjects",
    "SELECT subject, failures, since FROM sign_in_failures WHERE subject = ANY(:subjects)",
)
COUNT_FAILURE: Final = Statement(
    "count a failure of a subject",
    "INSERT INTO sign_in_failures (subject, failures, since) VALUES (:subject, 1, :now)"
    " ON CONFLICT (subject) DO UPDATE SET"
    " failures = CASE WHEN sign_in_failures.since > :window_start"
    " THEN sign_in_failures.failures + 1 ELSE 1 END,"
    " since = CASE WHEN sign_in_failures.since > :window_start"
    " THEN sign_in_failures.since ELSE :now END",
)
UNCOUNT_FAILURE: Final = Statement(
    "take back a failure of each subject",
    "UPDATE sign_in_failures SET failures = failures - 1 WHERE subject = ANY(:subjects)",
)
DELETE_FAILURES: Final = Statement(
    "delete the failures of a subject", "DELETE FROM sign_in_failures WHERE subject = :subject"
)
DELETE_OLD_FAILURES: Final = Statement(
    "delete the failures of windows that are over",
    "DELETE FROM sign_in_failures WHERE since < :before",
)
EVENTS_BEFORE: Final = Statement(
    "the events of an account before an id, newest first",
    f"SELECT {_AUDIT_COLUMNS} FROM audit_events"
    " WHERE account_id = :account_id AND id < :before ORDER BY id DESC LIMIT :limit",
)
HAS_NEW_PASSWORD: Final = Statement(
    "whether the password of an account was changed since a moment",
    "SELECT 1 FROM audit_events WHERE account_id = :account_id AND created_at >= :since"
    " AND kind IN ('password_changed', 'password_reset') LIMIT 1",
)
IS_KNOWN_BROWSER: Final = Statement(
    "whether somebody has signed in to an account from a browser",
    "SELECT 1 FROM known_browsers WHERE account_id = :account_id AND browser = :browser",
)
HAS_SIGNED_IN_SINCE_RESET: Final = Statement(
    "whether a browser has signed in to an account since its password was last reset",
    "SELECT 1 FROM known_browsers WHERE account_id = :account_id AND browser = :browser"
    " AND NOT EXISTS (SELECT 1 FROM audit_events AS event"
    " WHERE event.account_id = :account_id AND event.kind = 'password_reset'"
    " AND event.created_at >= last_used_at)",
)
REMEMBER_BROWSER: Final = Statement(
    "remember a browser from which somebody has signed in to an account",
    "INSERT INTO known_browsers (account_id, browser, last_used_at)"
    " VALUES (:account_id, :browser, :now)"
    " ON CONFLICT (account_id, browser) DO UPDATE SET last_used_at = :now",
)
FORGET_OTHER_BROWSERS: Final = Statement(
    "forget an account's other browsers",
    "DELETE FROM known_browsers WHERE account_id = :account_id AND browser <> :browser",
)
DELETE_UNUSED_BROWSERS: Final = deletion_of_oldest(
    "delete some browsers that have not been used for a long time",
    KNOWN_BROWSERS,
    by="last_used_at",
)
DELETE_EXPIRED_SESSIONS: Final = deletion_of_oldest(
    "delete some sessions that have expired", SESSIONS, by="expires_at"
)
DELETE_OLD_EVENTS: Final = deletion_of_oldest(
    "delete some old events", AUDIT_EVENTS, by="created_at"
)


async def add_session(transaction: Transaction, session: Session) -> None:
    """Insert a session."""
    await transaction.insert(SESSIONS, [msgspec.structs.astuple(session)])


async def sessions_by_hash(transaction: Transaction, hashes: Collection[str]) -> list[Session]:
    """Return the sessions with these hashes, including expired ones."""
    rows = await transaction.fetch(SESSIONS_BY_HASH, hashes=list(hashes))
    return [Session(*row) for row in rows]


async def sessions_of(
    transaction: Transaction, account_id: str, now: int, limit: int
) -> list[Session]:
    """Return the valid sessions of an account, last used first."""
    rows = await transaction.fetch(SESSIONS_OF, account_id=account_id, now=now, limit=limit)
    return [Session(*row) for row in rows]


async def record_session_uses(transaction: Transaction, uses: Uses) -> None:
    """Write when sessions, given by account and hash, were last used."""
    rows = sorted((hash_, used_at) for (_, hash_), used_at in uses.items())
    await transaction.update(SESSION_USES, rows)


async def lock_session(transaction: Transaction, account_id: str, hash_: str) -> bool:
    """Lock a session, so that it cannot end before this transaction; return whether it exists."""
    return bool(await transaction.fetch(LOCK_SESSION, account_id=account_id, hash=hash_))


async def record_identity_check(
    transaction: Transaction, account_id: str, hash_: str, now: int
) -> bool:
    """Write when the person of a session was last checked; return whether there is a session."""
    written = await transaction.execute(
        RECORD_IDENTITY_CHECK, account_id=account_id, hash=hash_, now=now
    )
    return written > 0


async def end_session(transaction: Transaction, account_id: str, hash_: str) -> bool:
    """End one session of the account; return whether there was one."""
    ended = await transaction.execute(DELETE_SESSION, account_id=account_id, hash=hash_)
    return ended > 0


async def end_other_sessions(transaction: Transaction, account_id: str, hash_: str) -> None:
    """End all other sessions of the account."""
    await transaction.execute(DELETE_OTHER_SESSIONS, account_id=account_id, hash=hash_)


async def end_all_sessions(transaction: Transaction) -> int:
    """End the sessions of all accounts; return how many there were."""
    return await delete_all(transaction, DELETE_SESSIONS_SINCE)


async def failures_of(
    transaction: Transaction, subjects: Collection[str]
) -> dict[str, tuple[int, int]]:
    """Return the failures of each subject: how many, and when their window began."""
    rows = await transaction.fetch(FAILURES_OF, subjects=list(subjects))
    return {row[0]: (row[1], row[2]) for row in rows}


async def count_failure(
    transaction: Transaction, subject: str, now: int, window_start: int
) -> None:
    """Count a failure; a window that began before `window_start` is over, and a new one begins."""
    await transaction.execute(COUNT_FAILURE, subject=subject, now=now, window_start=window_start)


async def uncount_failure(transaction: Transaction, subjects: Collection[str]) -> None:
    """Take back one failure of each subject."""
    await transaction.execute(UNCOUNT_FAILURE, subjects=list(subjects))


async def forget_failures(transaction: Transaction, subject: str) -> None:
    """Delete the failures of a subject."""
    await transaction.execute(DELETE_FAILURES, subject=subject)


async def sweep_failures(transaction: Transaction, before: int) -> int:
    """Delete failures whose window began before this moment; return how many subjects had any."""
    return await transaction.execute(DELETE_OLD_FAILURES, before=before)


async def add_event(transaction: Transaction, event: AuditEvent) -> None:
    """Insert an audit event."""
    await transaction.insert(AUDIT_EVENTS, [msgspec.structs.astuple(event)])


async def events_before(
    transaction: Transaction, account_id: str, before: str, limit: int
) -> list[AuditEvent]:
    """Return the events of the account before this event id, newest first."""
    rows = await transaction.fetch(EVENTS_BEFORE, account_id=account_id, before=before, limit=limit)
    return [AuditEvent(*row) for row in rows]


async def has_new_password(transaction: Transaction, account_id: str, since: int) -> bool:
    """Return whether the password of the account was changed at this moment or later."""
    return bool(await transaction.fetch(HAS_NEW_PASSWORD, account_id=account_id, since=since))


async def is_known_browser(transaction: Transaction, account_id: str, browser: str) -> bool:
    """Return whether somebody has signed in to the account from this browser."""
    return bool(await transaction.fetch(IS_KNOWN_BROWSER, account_id=account_id, browser=browser))


async def has_signed_in_since_reset(
    transaction: Transaction, account_id: str, browser: str
) -> bool:
    """Return whether the browser has signed in to the account since its password was last reset."""
    return bool(
        await transaction.fetch(HAS_SIGNED_IN_SINCE_RESET, account_id=account_id, browser=browser)
    )


async def remember_browser(
    transaction: Transaction, account_id: str, browser: str, now: int
) -> None:
    """Record that somebody has signed in to the account from this browser."""
    await transaction.execute(REMEMBER_BROWSER, account_id=account_id, browser=browser, now=now)


async def forget_other_browsers(transaction: Transaction, account_id: str, browser: str) -> None:
    """Forget all browsers of the account but this one."""
    await transaction.execute(FORGET_OTHER_BROWSERS, account_id=account_id, browser=browser)


async def delete_expired_sessions(transaction: Transaction, before: int, limit: int) -> int:
    """Delete up to `limit` sessions of any account that expired before this moment."""
    return await transaction.execute(DELETE_EXPIRED_SESSIONS, before=before, limit=limit)


async def delete_unused_browsers(transaction: Transaction, before: int, limit: int) -> int:
    """Delete up to `limit` browsers that nobody has signed in with since this moment."""
    return await transaction.execute(DELETE_UNUSED_BROWSERS, before=before, limit=limit)


async def delete_old_events(transaction: Transaction, before: int, limit: int) -> int:
    """Delete up to `limit` audit events from before this moment."""
    return await transaction.execute(DELETE_OLD_EVENTS, before=before, limit=limit)
