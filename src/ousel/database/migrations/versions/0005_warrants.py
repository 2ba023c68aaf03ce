"""Warrants: what entitles a partner to debit an account, as the books ask for it when they post."""

from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Let the books see which keys there are and until when, and nothing more of them."""
    op.execute(
        "CREATE VIEW warrants (account_id, handle, ends_at)"
        " AS SELECT account_id, handle, ends_at FROM partner_keys"
    )
