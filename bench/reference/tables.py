"""The reference application's tables, filled with the same partners and recipients."""

import asyncio
import hashlib
from typing import Final

import asyncpg

from ousel.workload.sample_data import SampleData

FUNDS: Final = 1_000_000_000

SCHEMA: Final = """
CREATE TABLE accounts (
    id TEXT PRIMARY KEY,
    username TEXT NOT NULL UNIQUE,
    balance NUMERIC(20, 6) NOT NULL CHECK (balance >= 0)
);
CREATE TABLE api_keys (
    key_hash TEXT PRIMARY KEY,
    account_id TEXT NOT NULL REFERENCES accounts
);
CREATE TABLE transfers (
    id UUID PRIMARY KEY,
    sender TEXT NOT NULL REFERENCES accounts,
    recipient TEXT NOT NULL REFERENCES accounts,
    amount NUMERIC(20, 6) NOT NULL,
    note TEXT,
    idempotency_key TEXT,
    balance_after NUMERIC(20, 6) NOT NULL,
    created_at TIMESTAMPTZ NOT NULL DEFAULT now(),
    UNIQUE (sender, idempotency_key)
);
"""


def fill(database_url: str, data: SampleData) -> None:
    """Create the tables, with the accounts and keys of the sample data."""
    asyncio.run(_fill(database_url, data))


async def _fill(database_url: str, data: SampleData) -> None:
    partners = [(f"partner-{index}", f"partner{index}", FUNDS) for index in range(len(data.keys))]
    recipients = [(name, name.removeprefix("@"), 0) for name in data.recipients]
    keys = [
        (hashlib.sha256(key.encode()).hexdigest(), partner[0])
        for key, partner in zip(data.keys, partners, strict=True)
    ]
    connection = await asyncpg.connect(database_url)
    try:
        await connection.execute(SCHEMA)
        await connection.copy_records_to_table("accounts", records=partners + recipients)
        await connection.copy_records_to_table("api_keys", records=keys)
    finally:
        await connection.close()
