"""An index that finds an account's events of one kind, however many other events it has."""

from alembic import op

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    """Create the index."""
    op.execute("CREATE INDEX audit_events_by_kind ON audit_events (account_id, kind, created_at)")
