"""Opening, finding and freezing accounts."""

import secrets
from typing import Final

import msgspec

from ousel.accounts import rules, store
from ousel.database.port import Transaction
from ousel.kernel.account_numbers import SERIAL_MAX, account_number
from ousel.kernel.clock import Clock
from ousel.kernel.errors import Refusal
from ousel.kernel.ids import new_id
from ousel.ledger import journal
from ousel.ledger.refusals import AccountNotFound
from ousel.ledger.rules import Account, Status

NUMBER_ATTEMPTS_MAX: Final = 10


class IdentifierInUse(Refusal):
    """Another account has this username or email already."""

    status = 409
    code = "identifier_in_use"
    title = "The username or email is in use"
    cure = "Choose another one, or sign in to the account that has it."


class NewHolder(msgspec.Struct, frozen=True, kw_only=True):
    """Who opens an account."""

    username: str
    email: str
    display_name: str
    password_hash: str | None = None


def check_holder(holder: NewHolder) -> None:
    """Refuse names that no account can have, before any work is done for them."""
    rules.parse_username(holder.username)
    rules.parse_email(holder.email)
    rules.parse_display_name(holder.display_name)


async def open_account(transaction: Transaction, holder: NewHolder, clock: Clock) -> Account:
    """Open an account for this holder."""
    username = rules.parse_username(holder.username)
    email = rules.parse_email(holder.email)
    display_name = rules.parse_display_name(holder.display_name)
    number = await _free_account_number(transaction)
    new = journal.NewAccount(
        id=new_id("acct_", clock),
        username=username,
        account_number=number,
        display_name=display_name,
        created_at=clock(),
        identifiers=(f"@{username}", email, number),
    )
    try:
        account = await journal.insert_account(transaction, new)
    except journal.IdentifierTaken as taken:
        raise IdentifierInUse(
            f"{taken.identifier} is in use.",
            param="username" if taken.identifier.startswith("@") else "email",
        ) from taken
    await store.add_holder(transaction, new.id, email, holder.password_hash)
    return account


async def find_account(transaction: Transaction, identifier: str, *, param: str) -> Account:
    """Return the account that the identifier names."""
    account_id = await find_account_id(transaction, identifier, param=param)
    if account_id is None:
        raise AccountNotFound("No account has this identifier.", param=param)
    return await account_by_id(transaction, account_id)


async def find_account_id(transaction: Transaction, identifier: str, *, param: str) -> str | None:
    """Return the id of the account that the identifier names, if there is one."""
    name = rules.normalize_identifier(identifier, param=param)
    return (await journal.find_account_ids(transaction, [name])).get(name)


async def account_by_id(transaction: Transaction, account_id: str) -> Account:
    """Return the account with this id."""
    return (await accounts_by_id(transaction, [account_id]))[account_id]


async def accounts_by_id(transaction: Transaction, account_ids: list[str]) -> dict[str, Account]:
    """Return the accounts with these ids."""
    return await journal.accounts_by_id(transaction, account_ids)


async def email_of(transaction: Transaction, account_id: str) -> str:
    """Return the email of an account's holder; the system account has none."""
    return await store.email_of(transaction, account_id)


async def password_hash_of(transaction: Transaction, account_id: str) -> str | None:
    """Return the stored password hash of an account's holder, or None without a password."""
    return await store.password_hash_of(transaction, account_id)


async def lock_password_hash(transaction: Transaction, account_id: str) -> str | None:
    """Return the stored password hash; nobody can change it until the transaction ends."""
    return await store.lock_password_hash(transaction, account_id)


async def set_password_hash(transaction: Transaction, account_id: str, password_hash: str) -> None:
    """Change the password of an account's holder."""
    await store.set_password_hash(transaction, account_id, password_hash)


async def set_status(transaction: Transaction, identifier: str, status: Status) -> Account:
    """Freeze or unfreeze the account that the identifier names."""
    account = await find_account(transaction, identifier, param="identifier")
    await journal.set_status(transaction, account.id, status)
    return await account_by_id(transaction, account.id)


async def _free_account_number(transaction: Transaction) -> str:
    for _ in range(NUMBER_ATTEMPTS_MAX):
        number = account_number(1 + secrets.randbelow(SERIAL_MAX))
        if not await journal.find_account_ids(transaction, [number]):
            return number
    raise AssertionError("account numbers are running out")
