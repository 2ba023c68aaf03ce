"""Connect: what people let apps read of their accounts."""

from alembic import op

revision = "0004"
down_revision = "0003"

STATEMENTS: tuple[str, ...] = ()


def upgrade() -> None:
    """Create the tables."""
    for statement in STATEMENTS:
        op.execute(statement)
