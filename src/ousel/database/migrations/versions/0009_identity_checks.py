"""When the person of a session last proved who they are; 0 (never) for sessions from before."""

from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """Add the column."""
    op.execute("ALTER TABLE sessions ADD COLUMN identity_checked_at BIGINT NOT NULL DEFAULT 0")
