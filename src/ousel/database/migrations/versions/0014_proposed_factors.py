"""Which session has proposed a second factor; unknown for earlier proposals."""

from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    """Add the column."""
    op.execute("ALTER TABLE second_factors ADD COLUMN proposed_by TEXT")
