"""Charges, which a partner creates and a payer pays."""

from alembic import op

revision = "0003"
down_revision = "0002"

STATEMENTS: tuple[str, ...] = ()


def upgrade() -> None:
    """Create the tables."""
    for statement in STATEMENTS:
        op.execute(statement)
