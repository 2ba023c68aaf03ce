"""Opening, finding, funding and freezing accounts, and redeeming their money.

The functions run in the transaction that they are given; AccountService opens its own.
"""

import secrets
from collections.abc import Collection
from typing import Final

import msgspec

from ousel.accounts import rules, store
from ousel.accounts.rules import HolderEmail, LockedHolder
from ousel.database.batching import SharedReads
from ousel.database.port import Database, Transaction
from ousel.kernel.account_numbers import SERIAL_MAX, account_number
from ousel.kernel.clock import Clock
from ousel.kernel.errors import FieldChecks, Refusal
from ousel.kernel.ids import new_id
from ousel.ledger import journal
from ousel.ledger.funding import OperatorTransfer, fund_account, redeem_money
from ousel.ledger.refusals import AccountNotFound
from ousel.ledger.rules import Account, Status
from ousel.ledger.verify import DatabaseLedger

NUMBER_ATTEMPTS_MAX: Final = 10


class IdentifierInUse(Refusal):
    """Another account has this username or email already."""

    status = 409
    code = "identifier_in_use"
    title = "The username or email is in use"
    cure = "Choose another one, or sign in to the account that has it."


class NewHolder(msgspec.Struct, frozen=True, kw_only=True):
    """The person or company that opens an account."""

    username: str
    email: str
    display_name: str
    password_hash: str | None = None
    email_is_confirmed: bool = True  # if not, the account cannot be found by the email yet


class AccountWithEmail(msgspec.Struct, frozen=True):
    """An account and the email of its holder."""

    account: Account
    email: HolderEmail


class AccountService:
    """What endpoints, pages and commands do with accounts; each method is one operation."""

    def __init__(self, database: Database, clock: Clock) -> None:
        """Work on this database."""
        self._database = database
        self._clock = clock
        self._accounts = SharedReads(database, accounts_by_id)

    async def open(self, holder: NewHolder) -> Account:
        """Open an account for this holder."""
        return await self._database.write(
            lambda transaction: open_account(transaction, holder, self._clock)
        )

    async def get(self, account_id: str) -> Account:
        """Return the account with this id; concurrent calls share one query."""
        return await self._accounts.get(account_id)

    async def get_with_email(self, account_id: str) -> AccountWithEmail:
        """Return the account with this id, together with its holder's email."""

        async def read(transaction: Transaction) -> AccountWithEmail:
            return await _with_email(transaction, await account_by_id(transaction, account_id))

        return await self._database.read(read)

    async def find(self, identifier: str, *, param: str) -> Account:
        """Return the account that has this identifier."""
        return await self._database.read(
            lambda transaction: find_account(transaction, identifier, param=param)
        )

    async def find_with_email(self, identifier: str, *, param: str) -> AccountWithEmail:
        """Return the account that has this identifier, together with its holder's email."""

        async def read(transaction: Transaction) -> AccountWithEmail:
            account = await find_account(transaction, identifier, param=param)
            return await _with_email(transaction, account)

        return await self._database.read(read)

    async def list_all(self) -> list[Account]:
        """Return all accounts in one snapshot, oldest first."""

        async def read(transaction: Transaction) -> list[Account]:
            return [account async for account in DatabaseLedger(transaction).accounts()]

        return await self._database.snapshot(read)

    async def fund(
        self,
        account: Account,
        amount: int,
        *,
        note: str | None = None,
        idempotency_key: str | None = None,
    ) -> OperatorTransfer:
        """Issue money to the account."""
        return await fund_account(
            self._database,
            self._clock,
            account,
            amount,
            note=note,
            idempotency_key=idempotency_key,
        )

    async def redeem(
        self,
        account: Account,
        amount: int,
        *,
        note: str | None = None,
        idempotency_key: str | None = None,
    ) -> OperatorTransfer:
        """Take money from the account out of circulation."""
        return await redeem_money(
            self._database,
            self._clock,
            account,
            amount,
            note=note,
            idempotency_key=idempotency_key,
        )

    async def confirm_email(self, identifier: str) -> AccountWithEmail:
        """Mark the email of this account's holder as confirmed; the operator vouches for it."""

        async def work(transaction: Transaction) -> AccountWithEmail:
            account = await find_account(transaction, identifier, param="identifier")
            email = (await lock_holder(transaction, account.id)).email
            await confirm_email(transaction, account.id, email.address)
            return await _with_email(transaction, account)

        return await self._database.write(work)

    async def set_status(self, identifier: str, status: Status) -> AccountWithEmail:
        """Freeze or unfreeze the account that has this identifier."""

        async def change(transaction: Transaction) -> AccountWithEmail:
            return await _with_email(transaction, await set_status(transaction, identifier, status))

        return await self._database.write(change)


def check_holder(holder: NewHolder, checks: FieldChecks) -> None:
    """Check username, email and display name before the password is hashed, which is slow."""
    checks.value(lambda: rules.parse_username(holder.username), "username")
    checks.value(lambda: rules.parse_email(holder.email), "email")
    checks.value(lambda: rules.parse_display_name(holder.display_name), "display_name")


async def is_username_free(transaction: Transaction, username: str) -> bool:
    """Return whether this username is free, or raise InvalidField if it is not valid."""
    name = f"@{rules.parse_username(username)}"
    return not await journal.find_account_ids(transaction, [name])


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
        identifiers=(f"@{username}", *([email] if holder.email_is_confirmed else []), number),
    )
    try:
        account = await journal.insert_account(transaction, new)
    except journal.IdentifierTaken as taken:
        raise IdentifierInUse(
            f"{taken.identifier} is in use.",
            param="username" if taken.identifier.startswith("@") else "email",
        ) from taken
    unconfirmed_since = None if holder.email_is_confirmed else new.created_at
    await store.add_holder(transaction, new.id, email, holder.password_hash, unconfirmed_since)
    return account


async def find_account(transaction: Transaction, identifier: str, *, param: str) -> Account:
    """Return the account that has this identifier, or raise AccountNotFound."""
    account_id = await find_account_id(transaction, identifier, param=param)
    if account_id is None:
        raise AccountNotFound("No account has this identifier.", param=param)
    return await account_by_id(transaction, account_id)


async def find_account_id(transaction: Transaction, identifier: str, *, param: str) -> str | None:
    """Return the id of the account that has this identifier, or None."""
    name = rules.normalize_identifier(identifier, param=param)
    return (await journal.find_account_ids(transaction, [name])).get(name)


async def account_by_id(transaction: Transaction, account_id: str) -> Account:
    """Return the account with this id."""
    return (await accounts_by_id(transaction, [account_id]))[account_id]


async def accounts_by_id(transaction: Transaction, account_ids: list[str]) -> dict[str, Account]:
    """Return the accounts with these ids."""
    return await journal.accounts_by_id(transaction, account_ids)


async def email_of(transaction: Transaction, account_id: str) -> HolderEmail:
    """Return the email of an account's holder; the system account has none."""
    return await store.email_of(transaction, account_id)


async def confirm_email(transaction: Transaction, account_id: str, email: str) -> HolderEmail:
    """Make this confirmed email an identifier of the account; return the email that it replaces.

    Raises IdentifierInUse if the email names another account. Of several transactions that claim
    the same email at once, one succeeds.
    """
    before = (await store.lock_holder(transaction, account_id)).email
    if before.is_confirmed and before.address == email:
        return before
    try:
        await journal.claim_identifier(transaction, email, account_id)
    except journal.IdentifierTaken as taken:
        raise IdentifierInUse(f"{email} is in use.", param="email") from taken
    if before.is_confirmed:
        await journal.release_identifier(transaction, before.address, account_id)
    await store.set_confirmed_email(transaction, account_id, email)
    return before


async def lock_holder(transaction: Transaction, account_id: str) -> LockedHolder:
    """Make other transactions that change this person's sign-in, keys or apps wait for this one."""
    return await store.lock_holder(transaction, account_id)


async def wants_money_notices(transaction: Transaction, account_id: str) -> bool:
    """Return whether the account's holder wants notices about received money."""
    return await store.wants_money_notices(transaction, account_id)


async def set_money_notices(
    transaction: Transaction, account_id: str, off_since: int | None
) -> None:
    """Turn the account's notices about received money off, or on if `off_since` is None."""
    await store.set_money_notices(transaction, account_id, off_since)


async def money_notice_emails(
    transaction: Transaction, account_ids: Collection[str]
) -> dict[str, str]:
    """Return the confirmed emails, by account, of holders who want notices about received money."""
    return await store.money_notice_emails(transaction, account_ids)


async def password_hash_of(transaction: Transaction, account_id: str) -> str | None:
    """Return the stored password hash of an account's holder, or None if there is none."""
    return await store.password_hash_of(transaction, account_id)


async def set_password_hash(transaction: Transaction, account_id: str, password_hash: str) -> None:
    """Change the password of an account's holder."""
    await store.set_password_hash(transaction, account_id, password_hash)


async def set_status(transaction: Transaction, identifier: str, status: Status) -> Account:
    """Freeze or unfreeze the account that has this identifier."""
    account = await find_account(transaction, identifier, param="identifier")
    await journal.set_status(transaction, account.id, status)
    return await account_by_id(transaction, account.id)


async def _with_email(transaction: Transaction, account: Account) -> AccountWithEmail:
    return AccountWithEmail(account, await email_of(transaction, account.id))


async def _free_account_number(transaction: Transaction) -> str:
    for _ in range(NUMBER_ATTEMPTS_MAX):
        number = account_number(1 + secrets.randbelow(SERIAL_MAX))
        if not await journal.find_account_ids(transaction, [number]):
            return number
    raise AssertionError("account numbers are running out")
