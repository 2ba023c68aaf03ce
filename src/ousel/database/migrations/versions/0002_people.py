"""People who sign in: sessions, second factors, failed attempts, and a log of security events."""

from alembic import op

revision = "0002"
down_revision = "0001"

STATEMENTS = (
    # A cookie is looked up by its hash. The index finds all sessions of an account.
    """
    CREATE TABLE sessions (
        hash TEXT NOT NULL PRIMARY KEY,
        account_id TEXT NOT NULL,
        stage TEXT NOT NULL,
        created_at BIGINT NOT NULL,
        last_used_at BIGINT NOT NULL,
        expires_at BIGINT NOT NULL,
        address TEXT NOT NULL,
        device TEXT NOT NULL,
        CHECK (stage IN ('signed_in', 'awaits_code'))
    )
    """,
    "CREATE INDEX sessions_by_account ON sessions (account_id)",
    """
    CREATE TABLE second_factors (
        account_id TEXT NOT NULL PRIMARY KEY,
        secret TEXT NOT NULL,
        confirmed_at BIGINT,
        last_step BIGINT NOT NULL
    )
    """,
    """
    CREATE TABLE recovery_codes (
        account_id TEXT NOT NULL,
        hash TEXT NOT NULL,
        used_at BIGINT,
        PRIMARY KEY (account_id, hash)
    )
    """,
    # A subject is something with a limit of its own, such as an account or an IP address.
    # Failures are counted within a time window.
    """
    CREATE TABLE sign_in_failures (
        subject TEXT NOT NULL PRIMARY KEY,
        failures BIGINT NOT NULL,
        since BIGINT NOT NULL
    )
    """,
    """
    CREATE TABLE audit_events (
        account_id TEXT NOT NULL,
        id TEXT NOT NULL,
        kind TEXT NOT NULL,
        detail TEXT NOT NULL,
        address TEXT NOT NULL,
        device TEXT NOT NULL,
        created_at BIGINT NOT NULL,
        PRIMARY KEY (account_id, id)
    )
    """,
    """
    CREATE TABLE api_errors (
        account_id TEXT NOT NULL,
        app_id TEXT NOT NULL,
        request_id TEXT NOT NULL,
        status BIGINT NOT NULL,
        code TEXT NOT NULL,
        method TEXT NOT NULL,
        path TEXT NOT NULL,
        created_at BIGINT NOT NULL,
        PRIMARY KEY (account_id, app_id, request_id)
    )
    """,
)


def upgrade() -> None:
    """Create the tables."""
    for statement in STATEMENTS:
        op.execute(statement)
