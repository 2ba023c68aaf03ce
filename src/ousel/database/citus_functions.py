"""Functions in a Citus database that lock rows of several shards in one round trip.

Citus locks rows by `SELECT … FOR UPDATE` only if all of them are in one shard. So these functions
lock the rows of one shard after the other. All transactions visit the shards in the same order, and
the rows of a shard in the order of their ids. Only a transaction that first waits for a certain row
(`awaited`) breaks this order, so deadlocks are rare.
"""

from typing import Final

from ousel.database.statements import POSTGRES_CLOCK

_SHARDS: Final = """
    SELECT array_agg(id) FROM unnest({ids}) AS id
    GROUP BY get_shard_id_for_distribution_column('{table}', id)
    ORDER BY get_shard_id_for_distribution_column('{table}', id)
"""

_ACCOUNTS: Final = """
    RETURN QUERY SELECT a.id, a.username, a.account_number, a.display_name, a.status, a.balance,
        a.sequence, a.head_hash, a.created_at, a.updated_at,
        CASE WHEN a.id = ANY(debited_ids) THEN
            (SELECT b.sequence FROM accounts AS b WHERE b.id = a.id AND b.id = ANY(members)) END,
        (SELECT COUNT(*) FROM jsonb_array_elements(keys) AS key JOIN entries AS e
            ON e.account_id = key->>0 AND e.idempotency_key = key->>1
            WHERE e.account_id = a.id AND e.account_id = ANY(members)),
        valid, clock
    FROM accounts AS a WHERE a.id = ANY(members) ORDER BY a.id FOR UPDATE
"""

_LOCK_ACCOUNTS: Final = f"""
CREATE OR REPLACE FUNCTION ousel_lock_accounts(
    ids text[], debited_ids text[], keys jsonb, checked jsonb, moment bigint, awaited text,
    waits boolean
) RETURNS TABLE (
    account_id text, username text, account_number text, display_name text, status text,
    balance bigint, sequence bigint, head_hash text, created_at bigint, updated_at bigint,
    sequence_before bigint, keys_used bigint, keys_valid bigint, database_time bigint
) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    members text[];
    clock bigint := {POSTGRES_CLOCK};
    valid bigint := (
        SELECT COUNT(*) FROM jsonb_array_elements(checked) AS key JOIN partner_keys AS k
            ON k.account_id = key->>0 AND k.handle = key->>1
        WHERE k.ends_at IS NULL OR k.ends_at > moment
    );
BEGIN
    IF awaited IS NOT NULL THEN
        PERFORM a.id FROM accounts AS a WHERE a.id = awaited FOR UPDATE;
    END IF;
    FOR members IN {_SHARDS.format(table="accounts", ids="ids")} LOOP
        IF waits THEN {_ACCOUNTS}; ELSE {_ACCOUNTS} SKIP LOCKED; END IF;
    END LOOP;
END $$
"""

_CHARGES: Final = """
    RETURN QUERY SELECT c.account_id, c.id, c.app_id, c.status, c.amount, c.description,
        c.reference, c.success_url, c.cancel_url, c.idempotency_key, c.created_at, c.expires_at,
        c.paid_at, c.canceled_at, c.paid_by, c.transfer_id, clock
    FROM charges AS c WHERE c.account_id = ANY(members) AND c.id = ANY(ids) ORDER BY c.id FOR UPDATE
"""

_LOCK_CHARGES: Final = f"""
CREATE OR REPLACE FUNCTION ousel_lock_charges(ids text[], account_ids text[], waits boolean)
RETURNS TABLE (
    account_id text, id text, app_id text, status text, amount bigint, description text,
    reference text, success_url text, cancel_url text, idempotency_key text, created_at bigint,
    expires_at bigint, paid_at bigint, canceled_at bigint, paid_by text, transfer_id text,
    database_time bigint
) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    members text[];
    clock bigint := {POSTGRES_CLOCK};
    owners text[] := COALESCE(
        account_ids, ARRAY(SELECT DISTINCT c.account_id FROM charges AS c WHERE c.id = ANY(ids))
    );
BEGIN
    FOR members IN {_SHARDS.format(table="charges", ids="owners")} LOOP
        IF waits THEN {_CHARGES}; ELSE {_CHARGES} SKIP LOCKED; END IF;
    END LOOP;
END $$
"""

FUNCTIONS: Final = (_LOCK_ACCOUNTS, _LOCK_CHARGES)

_LOCKED_ACCOUNTS: Final = (
    "SELECT account_id, username, account_number, display_name, status, balance, sequence,"
    " head_hash, created_at, updated_at,"
    " CAST(SUM(sequence_before) OVER () AS BIGINT), CAST(SUM(keys_used) OVER () AS BIGINT),"
    " keys_valid, database_time"
    " FROM ousel_lock_accounts(:ids, :debited, :keys_json, :checked_json, :now, {awaited}, {waits})"
    " ORDER BY account_id"
)
_LOCKED_CHARGES: Final = "SELECT * FROM ousel_lock_charges(:ids, :owners, {waits}) ORDER BY id"

# The calls that replace statements, by the names of the statements.
CALLS: Final = {
    "count keys and read the clock, then lock accounts in the order of their ids": (
        _LOCKED_ACCOUNTS.format(awaited="NULL", waits="TRUE")
    ),
    "lock accounts in the order of their ids, without those that other transactions have locked": (
        _LOCKED_ACCOUNTS.format(awaited="NULL", waits="FALSE")
    ),
    "first wait for one account and lock it, then lock the other accounts that are free": (
        _LOCKED_ACCOUNTS.format(awaited=":awaited", waits="FALSE")
    ),
    "lock charges in the order of their ids; read the clock when the statement starts": (
        _LOCKED_CHARGES.format(waits="TRUE")
    ),
    "lock charges in the order of their ids, without those that other transactions have locked": (
        _LOCKED_CHARGES.format(waits="FALSE")
    ),
}
