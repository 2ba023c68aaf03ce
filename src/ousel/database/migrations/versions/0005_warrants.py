"""The view `warrants`: the partner keys, as the ledger checks them while it writes a batch."""

from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Create the view: it shows only which keys exist and when they end."""
    op.execute(
        "CREATE VIEW warrants (account_id, handle, ends_at)"
        " AS SELECT account_id, handle, ends_at FROM partner_keys"
    )
