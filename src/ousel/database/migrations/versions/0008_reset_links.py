"""Links that set a new password, and who wants no notices about received money."""

from alembic import op

revision = "0008"
down_revision = "0007"

STATEMENTS = (
    # Only the newest link of each kind works. A link is looked up by its hash.
    """
    CREATE TABLE reset_links (
        account_id TEXT NOT NULL,
        kind TEXT NOT NULL,
        link_hash TEXT NOT NULL,
        created_at BIGINT NOT NULL,
        expires_at BIGINT NOT NULL,
        PRIMARY KEY (account_id, kind)
    )
    """,
    "CREATE INDEX reset_links_by_hash ON reset_links (link_hash)",
    "CREATE INDEX reset_links_by_expiry ON reset_links (expires_at)",
    "ALTER TABLE holders ADD COLUMN money_notices_off_since BIGINT",
)


def upgrade() -> None:
    """Create the table and its indexes, and add the column."""
    for statement in STATEMENTS:
        op.execute(statement)
