"""Rehearsals of the sandbox's lab, and the calls that they record."""

from alembic import op

revision = "0010"
down_revision = "0009"

STATEMENTS = (
    """
    CREATE TABLE rehearsals (
        account_id TEXT NOT NULL,
        id TEXT NOT NULL,
        app_id TEXT NOT NULL,
        name TEXT NOT NULL,
        started_at BIGINT NOT NULL,
        ends_at BIGINT NOT NULL,
        calls BIGINT NOT NULL,
        code_hash TEXT,
        PRIMARY KEY (account_id, id)
    )
    """,
    "CREATE INDEX rehearsals_by_app ON rehearsals (app_id, ends_at)",
    "CREATE INDEX rehearsals_by_id ON rehearsals (id)",
    "CREATE INDEX rehearsals_by_code ON rehearsals (code_hash)",
    # A call is stored as JSON, because it is only ever read as a whole.
    """
    CREATE TABLE rehearsal_calls (
        account_id TEXT NOT NULL,
        rehearsal_id TEXT NOT NULL,
        sequence BIGINT NOT NULL,
        call TEXT NOT NULL,
        PRIMARY KEY (account_id, rehearsal_id, sequence)
    )
    """,
)


def upgrade() -> None:
    """Create the tables and the indexes."""
    for statement in STATEMENTS:
        op.execute(statement)
