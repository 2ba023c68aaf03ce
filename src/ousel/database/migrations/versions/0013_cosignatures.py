"""The cosignatures of witnesses on the checkpoints of the sealed log."""

from alembic import op

revision = "0013"
down_revision = "0012"

STATEMENTS = (
    # The newest cosignature of each witness, and the process that asks the witness for the next.
    """
    CREATE TABLE sealed_cosignatures (
        witness TEXT NOT NULL PRIMARY KEY,
        claimed_by TEXT NOT NULL,
        claimed_until BIGINT NOT NULL,
        size BIGINT NOT NULL,
        checkpoint TEXT NOT NULL,
        cosignature TEXT NOT NULL
    )
    """,
)


def upgrade() -> None:
    """Create the table."""
    for statement in STATEMENTS:
        op.execute(statement)
