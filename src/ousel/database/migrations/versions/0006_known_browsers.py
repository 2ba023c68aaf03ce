"""Browsers that people have signed in with, and indexes to delete what is no longer needed."""

from alembic import op

revision = "0006"
down_revision = "0005"

STATEMENTS = (
    """
    CREATE TABLE known_browsers (
        account_id TEXT NOT NULL,
        browser TEXT NOT NULL,
        last_used_at BIGINT NOT NULL,
        PRIMARY KEY (account_id, browser)
    )
    """,
    "CREATE INDEX known_browsers_by_last_use ON known_browsers (last_used_at)",
    "CREATE INDEX sessions_by_expiry ON sessions (expires_at)",
    "CREATE INDEX audit_events_by_date ON audit_events (created_at)",
)


def upgrade() -> None:
    """Create the table and the indexes."""
    for statement in STATEMENTS:
        op.execute(statement)
