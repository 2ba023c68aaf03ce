"""OAuth: people allow apps to read their accounts.

Codes and tokens belong to the person's account. They also name the app's account, so that the app
is found by its whole primary key.
"""

from alembic import op

revision = "0004"
down_revision = "0003"

STATEMENTS: tuple[str, ...] = (
    # A used code is kept as long as its token is valid, to recognize a second use.
    """
    CREATE TABLE authorization_codes (
        account_id TEXT NOT NULL,
        handle TEXT NOT NULL,
        hash TEXT NOT NULL,
        app_account_id TEXT NOT NULL,
        app_id TEXT NOT NULL,
        redirect_uri TEXT NOT NULL,
        scope TEXT NOT NULL,
        code_challenge TEXT,
        created_at BIGINT NOT NULL,
        expires_at BIGINT NOT NULL,
        used_at BIGINT,
        kept_until BIGINT NOT NULL,
        PRIMARY KEY (account_id, handle)
    )
    """,
    "CREATE INDEX authorization_codes_by_handle ON authorization_codes (handle)",
    "CREATE INDEX authorization_codes_by_end ON authorization_codes (kept_until)",
    """
    CREATE TABLE user_tokens (
        account_id TEXT NOT NULL,
        handle TEXT NOT NULL,
        hash TEXT NOT NULL,
        app_account_id TEXT NOT NULL,
        app_id TEXT NOT NULL,
        scope TEXT NOT NULL,
        code_handle TEXT NOT NULL,
        created_at BIGINT NOT NULL,
        expires_at BIGINT NOT NULL,
        last_used_at BIGINT,
        PRIMARY KEY (account_id, handle)
    )
    """,
    "CREATE INDEX user_tokens_by_handle ON user_tokens (handle)",
    "CREATE INDEX user_tokens_by_code ON user_tokens (account_id, code_handle)",
    "CREATE INDEX user_tokens_by_app ON user_tokens (app_id, account_id, expires_at)",
    "CREATE INDEX user_tokens_by_end ON user_tokens (expires_at)",
)


def upgrade() -> None:
    """Create the tables."""
    for statement in STATEMENTS:
        op.execute(statement)
