"""The ledger, the people who own its accounts, and the partners that use it.

In each table whose rows belong to accounts, the primary key begins with the account's id, and no
unique index or foreign key spans several accounts, so that the tables can be distributed over
several machines by account. The only exception here is the table of identifiers, by which accounts
are found: its key is the identifier.
"""

from alembic import op

revision = "0001"
down_revision = None

STATEMENTS = (
    # Settings of the whole database: whether it is live or a sandbox.
    """
    CREATE TABLE deployment (
        name TEXT NOT NULL PRIMARY KEY,
        value TEXT NOT NULL
    )
    """,
    """
    CREATE TABLE accounts (
        id TEXT NOT NULL PRIMARY KEY,
        username TEXT NOT NULL,
        account_number TEXT NOT NULL,
        display_name TEXT NOT NULL,
        status TEXT NOT NULL,
        balance BIGINT NOT NULL,
        sequence BIGINT NOT NULL,
        head_hash TEXT NOT NULL,
        created_at BIGINT NOT NULL,
        updated_at BIGINT NOT NULL,
        CHECK (status IN ('active', 'frozen')),
        CHECK (balance >= 0 OR id = 'acct_00000000000000000000000000')
    )
    """,
    # Money is issued from the system account, the only one whose balance may be negative.
    """
    INSERT INTO accounts VALUES (
        'acct_00000000000000000000000000', 'ousel', 'OU830000000000', 'Ousel', 'active', 0, 0,
        '0000000000000000000000000000000000000000000000000000000000000000', 0, 0
    )
    """,
    """
    CREATE TABLE identifiers (
        identifier TEXT NOT NULL PRIMARY KEY,
        account_id TEXT NOT NULL
    )
    """,
    """
    CREATE TABLE entries (
        account_id TEXT NOT NULL,
        sequence BIGINT NOT NULL,
        transfer_id TEXT NOT NULL,
        kind TEXT NOT NULL,
        amount BIGINT NOT NULL,
        balance_after BIGINT NOT NULL,
        counterparty_id TEXT NOT NULL,
        note TEXT,
        charge_id TEXT,
        idempotency_key TEXT,
        created_at BIGINT NOT NULL,
        hash TEXT NOT NULL,
        PRIMARY KEY (account_id, sequence)
    )
    """,
    """
    CREATE UNIQUE INDEX entries_by_idempotency_key
        ON entries (account_id, idempotency_key) WHERE idempotency_key IS NOT NULL
    """,
    """
    CREATE TABLE holders (
        account_id TEXT NOT NULL PRIMARY KEY,
        email TEXT NOT NULL,
        password_hash TEXT
    )
    """,
    """
    CREATE TABLE apps (
        account_id TEXT NOT NULL,
        id TEXT NOT NULL,
        name TEXT NOT NULL,
        created_at BIGINT NOT NULL,
        PRIMARY KEY (account_id, id)
    )
    """,
    "CREATE INDEX apps_by_id ON apps (id)",
    """
    CREATE TABLE partner_keys (
        account_id TEXT NOT NULL,
        handle TEXT NOT NULL,
        app_id TEXT NOT NULL,
        name TEXT NOT NULL,
        hash TEXT NOT NULL,
        created_at BIGINT NOT NULL,
        ends_at BIGINT,
        last_used_at BIGINT,
        PRIMARY KEY (account_id, handle)
    )
    """,
    "CREATE INDEX partner_keys_by_handle ON partner_keys (handle)",
    """
    CREATE TABLE app_redirect_uris (
        account_id TEXT NOT NULL,
        app_id TEXT NOT NULL,
        redirect_uri TEXT NOT NULL,
        created_at BIGINT NOT NULL,
        PRIMARY KEY (account_id, app_id, redirect_uri)
    )
    """,
    """
    CREATE TABLE app_origins (
        account_id TEXT NOT NULL,
        app_id TEXT NOT NULL,
        origin TEXT NOT NULL,
        created_at BIGINT NOT NULL,
        PRIMARY KEY (account_id, app_id, origin)
    )
    """,
    "CREATE INDEX app_origins_by_origin ON app_origins (origin)",
)

POSTGRES_TUNING = (
    # Each batch rewrites an account's row. Free space on its page lets PostgreSQL do so in place.
    "ALTER TABLE accounts SET (fillfactor = 50)",
)


def upgrade() -> None:
    """Create the tables."""
    for statement in STATEMENTS:
        op.execute(statement)
    if op.get_context().dialect.name == "postgresql":
        for statement in POSTGRES_TUNING:
            op.execute(statement)
