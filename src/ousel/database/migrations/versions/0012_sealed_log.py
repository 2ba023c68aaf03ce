"""The sealed log: a Merkle tree with one leaf for each movement.

Movements from before this migration are sealed by the servers, in the background.
"""

from alembic import op

revision = "0012"
down_revision = "0011"

STATEMENTS = (
    # A transaction writes one row for its movements; the row is deleted when they are sealed.
    """
    CREATE TABLE unsealed_batches (
        id TEXT NOT NULL PRIMARY KEY,
        movements TEXT NOT NULL
    )
    """,
    # One row for movements that were sealed together and have the same date. Their leaves follow
    # each other from `first_index` on.
    """
    CREATE TABLE sealed_batches (
        first_index BIGINT NOT NULL PRIMARY KEY,
        created_at BIGINT NOT NULL,
        movements TEXT NOT NULL,
        secrets TEXT NOT NULL
    )
    """,
    "CREATE INDEX sealed_batches_by_date ON sealed_batches (created_at)",
    """
    CREATE TABLE sealed_tiles (
        level BIGINT NOT NULL,
        position BIGINT NOT NULL,
        hashes TEXT NOT NULL,
        PRIMARY KEY (level, position)
    )
    """,
    # The state of the log, in one row: whoever has locked it may append leaves. The columns
    # `backfill_account_id` and `backfill_sequence` name the last entry that a backfill has read.
    """
    CREATE TABLE sealed_log (
        id BIGINT NOT NULL PRIMARY KEY,
        size BIGINT NOT NULL,
        checkpoint TEXT,
        backfill_account_id TEXT,
        backfill_sequence BIGINT NOT NULL,
        CHECK (id = 1)
    )
    """,
)


def upgrade() -> None:
    """Create the tables."""
    for statement in STATEMENTS:
        op.execute(statement)
