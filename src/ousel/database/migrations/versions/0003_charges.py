"""Charges, which a partner creates and a payer pays."""

from alembic import op

revision = "0003"
down_revision = "0002"

STATEMENTS = (
    """
    CREATE TABLE charges (
        account_id TEXT NOT NULL,
        id TEXT NOT NULL,
        app_id TEXT NOT NULL,
        status TEXT NOT NULL,
        amount BIGINT NOT NULL,
        description TEXT,
        reference TEXT,
        success_url TEXT,
        cancel_url TEXT,
        idempotency_key TEXT,
        created_at BIGINT NOT NULL,
        expires_at BIGINT NOT NULL,
        paid_at BIGINT,
        canceled_at BIGINT,
        paid_by TEXT,
        transfer_id TEXT,
        PRIMARY KEY (account_id, id),
        CHECK (status IN ('created', 'paid', 'canceled', 'expired')),
        CHECK (amount > 0),
        CHECK (expires_at = created_at + 7200000000),
        CHECK ((status = 'paid') = (paid_at IS NOT NULL)),
        CHECK ((status = 'paid') = (paid_by IS NOT NULL)),
        CHECK ((status = 'paid') = (transfer_id IS NOT NULL)),
        CHECK ((status = 'canceled') = (canceled_at IS NOT NULL)),
        CHECK (paid_at < expires_at),
        CHECK (canceled_at < expires_at)
    )
    """,
    # A payer's link contains only the charge's id.
    "CREATE INDEX charges_by_id ON charges (id)",
    """
    CREATE UNIQUE INDEX charges_by_idempotency_key
        ON charges (account_id, idempotency_key) WHERE idempotency_key IS NOT NULL
    """,
    "CREATE INDEX charges_in_order ON charges (account_id, created_at, id)",
    "CREATE INDEX charges_by_app ON charges (account_id, app_id, created_at, id)",
    "CREATE INDEX charges_by_status ON charges (account_id, status, created_at, id)",
    """
    CREATE INDEX charges_by_reference
        ON charges (account_id, reference, created_at, id) WHERE reference IS NOT NULL
    """,
)


def upgrade() -> None:
    """Create the table and its indexes."""
    for statement in STATEMENTS:
        op.execute(statement)
