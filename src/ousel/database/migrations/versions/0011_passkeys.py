"""Passkeys, and the challenges that they answer."""

from alembic import op

revision = "0011"
down_revision = "0010"

STATEMENTS = (
    # A person who signs in with a passkey alone is found by the credential's id.
    """
    CREATE TABLE passkeys (
        account_id TEXT NOT NULL,
        id TEXT NOT NULL,
        credential_id TEXT NOT NULL,
        public_key TEXT NOT NULL,
        name TEXT NOT NULL,
        sign_count BIGINT NOT NULL,
        created_at BIGINT NOT NULL,
        last_used_at BIGINT,
        PRIMARY KEY (account_id, id)
    )
    """,
    "CREATE INDEX passkeys_by_credential ON passkeys (credential_id)",
    # A challenge is deleted when it is used. Its account_id is empty if the passkey will
    # name the account.
    """
    CREATE TABLE passkey_challenges (
        hash TEXT NOT NULL PRIMARY KEY,
        browser TEXT NOT NULL,
        account_id TEXT NOT NULL,
        expires_at BIGINT NOT NULL
    )
    """,
    "CREATE INDEX passkey_challenges_by_expiry ON passkey_challenges (expires_at)",
)


def upgrade() -> None:
    """Create the tables and the indexes."""
    for statement in STATEMENTS:
        op.execute(statement)
