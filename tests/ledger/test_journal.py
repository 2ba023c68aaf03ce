"""The rows of the ledger: accounts, their identifiers, and their entries."""

from functools import partial

import pytest

from ousel.database.port import Database, IntegrityViolation, Transaction
from ousel.database.statements import Statement
from ousel.kernel.clock import system_clock
from ousel.ledger import journal
from ousel.ledger.journal import IdentifierTaken, NewAccount
from ousel.ledger.queue import PostingQueue
from ousel.ledger.rules import FIRST_HASH, SYSTEM_ACCOUNT_ID, Account, Status
from tests.ledger.examples import posting
from tests.support.accounts import person

COPIED = """
    INSERT INTO entries SELECT account_id, {sequence}, transfer_id, kind, amount, balance_after,
        counterparty_id, note, charge_id, {key}, created_at, hash
    FROM entries WHERE account_id = :id AND idempotency_key IS NOT NULL
"""


def new(name: str, *identifiers: str) -> NewAccount:
    return NewAccount(
        id=f"acct_{name}",
        username=name,
        account_number=f"OU{name}",
        display_name=name.title(),
        created_at=7,
        identifiers=(f"@{name}", *identifiers),
    )


async def opened(database: Database, wanted: NewAccount) -> Account:
    return await database.write(lambda transaction: journal.insert_account(transaction, wanted))


async def test_a_new_account_is_empty(database: Database) -> None:
    """It has no money and no history, and each of its identifiers finds it."""
    account = await opened(database, new("ada", "ada@example.com"))

    assert (account.balance, account.sequence, account.head_hash) == (0, 0, FIRST_HASH)
    assert (account.status, account.created_at, account.updated_at) == ("active", 7, 7)
    found = await database.read(
        lambda each: journal.find_account_ids(each, ["@ada", "ada@example.com", "@bob"])
    )
    assert found == {"@ada": account.id, "ada@example.com": account.id}
    by_id = await database.read(lambda each: journal.accounts_by_id(each, [account.id, "acct_x"]))
    assert by_id == {account.id: account}


async def test_an_account_with_a_taken_identifier_is_not_opened(database: Database) -> None:
    """The error names the identifier; the other identifiers of the account stay free."""
    await opened(database, new("ada", "ada@example.com"))

    with pytest.raises(IdentifierTaken) as taken:
        await opened(database, new("bob", "bob@example.com", "ada@example.com"))

    assert taken.value.identifier == str(taken.value) == "ada@example.com"
    assert len(await database.read(lambda each: journal.accounts_after(each, "", 10))) == 2
    await opened(database, new("bob", "bob@example.com"))


async def test_accounts_are_paged_in_the_order_of_their_ids(database: Database) -> None:
    """All pages together contain each account once."""
    for name in ("c", "a", "b"):
        await opened(database, new(name))

    first = await database.read(lambda each: journal.accounts_after(each, "", 2))
    second = await database.read(lambda each: journal.accounts_after(each, first[-1].id, 9))

    assert [account.id for account in first] == [SYSTEM_ACCOUNT_ID, "acct_a"]
    assert [account.id for account in second] == ["acct_b", "acct_c"]


async def test_a_status_is_set(database: Database) -> None:
    """An account can be frozen and made active again."""
    ada = await opened(database, new("ada"))

    statuses: tuple[Status, ...] = ("frozen", "active")
    for status in statuses:
        await database.write(partial(journal.set_status, account_id=ada.id, status=status))
        found = await database.read(lambda each: journal.accounts_by_id(each, [ada.id]))
        assert found[ada.id].status == status


async def test_entries_are_counted_by_the_accounts(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Page by page, to the end or until there are enough."""
    monkeypatch.setattr(journal, "ACCOUNTS_COUNTED_AT_ONCE", 1)
    assert await database.read(journal.count_entries) == 0
    ada = await person(database, "ada", "1")
    await person(database, "bob")
    queue = PostingQueue(database, system_clock, queue_limit=10)
    await queue.post(posting(ada.id, "@bob"))

    assert await database.read(journal.count_entries) == 4
    assert await database.read(partial(journal.count_entries, enough=2)) in {2, 3}


@pytest.mark.parametrize(
    "tampering",
    [
        "UPDATE accounts SET balance = -1 WHERE id = :id",
        "UPDATE accounts SET status = 'closed' WHERE id = :id",
        COPIED.format(sequence="sequence + 1", key="idempotency_key"),
        COPIED.format(sequence="sequence", key="'other'"),
    ],
    ids=["a balance below zero", "an unknown status", "a key twice", "a number twice"],
)
async def test_the_schema_itself_refuses_impossible_rows(
    database: Database, tampering: str
) -> None:
    """Constraints refuse such rows even if the code has an error."""
    ada = await person(database, "ada", "1")
    await person(database, "bob")
    queue = PostingQueue(database, system_clock, queue_limit=10)
    await queue.post(posting(ada.id, "@bob", key="k"))

    async def work(transaction: Transaction) -> None:
        await transaction.execute(Statement("tamper", tampering), id=ada.id)

    with pytest.raises(IntegrityViolation):
        await database.write(work)
