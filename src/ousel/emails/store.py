"""The rows of emails that wait to be proven."""

from typing import Final

import msgspec

from ousel.database.port import Transaction
from ousel.database.statements import Statement, Table, deletion_of_oldest
from ousel.emails.rules import EmailProof

EMAIL_PROOFS: Final = Table(
    "email_proofs",
    key=("account_id text",),
    columns=(
        "email text",
        "link_hash text",
        "code_hash text",
        "wrong_codes bigint",
        "created_at bigint",
        "expires_at bigint",
    ),
)

_COLUMNS: Final = ", ".join(EMAIL_PROOFS.names)

PROOF_OF: Final = Statement(
    "the email that an account has to prove",
    f"SELECT {_COLUMNS} FROM email_proofs WHERE account_id = :account_id",
)
LOCK_PROOF: Final = Statement(
    "lock the email that an account has to prove",
    f"SELECT {_COLUMNS} FROM email_proofs WHERE account_id = :account_id FOR UPDATE",
)
PROOF_BY_LINK: Final = Statement(
    "the email that a link proves",
    f"SELECT {_COLUMNS} FROM email_proofs WHERE link_hash = :link_hash",
)
COUNT_WRONG_CODE: Final = Statement(
    "count a wrong code",
    "UPDATE email_proofs SET wrong_codes = wrong_codes + 1 WHERE account_id = :account_id",
)
DELETE_PROOF: Final = Statement(
    "delete the proof of an account", "DELETE FROM email_proofs WHERE account_id = :account_id"
)
DELETE_EXPIRED: Final = deletion_of_oldest(
    "delete some proofs that have expired", EMAIL_PROOFS, by="expires_at"
)


async def replace_proof(transaction: Transaction, proof: EmailProof) -> None:
    """Insert a proof, which replaces the account's earlier one."""
    await delete_proof(transaction, proof.account_id)
    await transaction.insert(EMAIL_PROOFS, [msgspec.structs.astuple(proof)])


async def proof_of(transaction: Transaction, account_id: str) -> EmailProof | None:
    """Return the account's pending confirmation, whether or not it has expired."""
    rows = await transaction.fetch(PROOF_OF, account_id=account_id)
    return EmailProof(*rows[0]) if rows else None


async def lock_proof(transaction: Transaction, account_id: str) -> EmailProof | None:
    """Return the account's pending confirmation, and lock it until the transaction ends."""
    rows = await transaction.fetch(LOCK_PROOF, account_id=account_id)
    return EmailProof(*rows[0]) if rows else None


async def proof_by_link(transaction: Transaction, link_hash: str) -> EmailProof | None:
    """Return the pending confirmation of this link, whether or not it has expired."""
    rows = await transaction.fetch(PROOF_BY_LINK, link_hash=link_hash)
    return EmailProof(*rows[0]) if rows else None


async def count_wrong_code(transaction: Transaction, account_id: str) -> None:
    """Count a wrong code of the account's proof."""
    await transaction.execute(COUNT_WRONG_CODE, account_id=account_id)


async def delete_proof(transaction: Transaction, account_id: str) -> None:
    """Delete the account's proof."""
    await transaction.execute(DELETE_PROOF, account_id=account_id)


async def delete_expired(transaction: Transaction, before: int, limit: int) -> int:
    """Delete up to `limit` proofs that expired before this moment."""
    return await transaction.execute(DELETE_EXPIRED, before=before, limit=limit)
