"""Mail that waits to be sent, and emails that wait to be confirmed.

The emails of existing accounts count as confirmed, because `email_unproven_since` is NULL for them.
"""

from alembic import op

revision = "0007"
down_revision = "0006"

STATEMENTS = (
    "ALTER TABLE holders ADD COLUMN email_unproven_since BIGINT",
    # An account confirms one email at a time. A link is looked up by its hash.
    """
    CREATE TABLE email_proofs (
        account_id TEXT NOT NULL PRIMARY KEY,
        email TEXT NOT NULL,
        link_hash TEXT NOT NULL,
        code_hash TEXT NOT NULL,
        wrong_codes BIGINT NOT NULL,
        created_at BIGINT NOT NULL,
        expires_at BIGINT NOT NULL
    )
    """,
    "CREATE INDEX email_proofs_by_link ON email_proofs (link_hash)",
    "CREATE INDEX email_proofs_by_expiry ON email_proofs (expires_at)",
    # A message that was sent is deleted. `due_at` is NULL if it is not to be sent (any more).
    """
    CREATE TABLE outbox (
        account_id TEXT NOT NULL,
        id TEXT NOT NULL,
        recipient TEXT NOT NULL,
        subject TEXT NOT NULL,
        text_body TEXT NOT NULL,
        html_body TEXT NOT NULL,
        created_at BIGINT NOT NULL,
        attempts BIGINT NOT NULL,
        due_at BIGINT,
        failed_at BIGINT,
        PRIMARY KEY (account_id, id)
    )
    """,
    "CREATE INDEX outbox_by_id ON outbox (id)",
    "CREATE INDEX outbox_by_recipient ON outbox (recipient, id)",
    "CREATE INDEX outbox_by_due_date ON outbox (due_at)",
    "CREATE INDEX outbox_by_date ON outbox (created_at)",
)


def upgrade() -> None:
    """Add the column, the tables and the indexes."""
    for statement in STATEMENTS:
        op.execute(statement)
