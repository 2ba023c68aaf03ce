"""Activity: movements as a filtered list, as single pages, and as CSV."""

import csv
import io
from collections.abc import Awaitable, Callable

import httpx2
import pytest

from ousel.accounts.service import find_account
from ousel.database.port import Transaction
from ousel.kernel.clock import MICROS_PER_SECOND, timestamp
from ousel.kernel.errors import DatabaseUnavailable
from ousel.kernel.ids import new_id
from ousel.kernel.money import micros_from_json
from ousel.ledger.queue import PostingQueue
from ousel.ledger.rules import Account, Posting
from ousel.portal import activity
from tests.support.engines import ENGINES
from tests.support.portal import Portal
from tests.support.visitor import Visitor

pytestmark = pytest.mark.parametrize("engine", ENGINES)  # these pages have searches of their own

DAY_SECONDS = 24 * 3600
FORMULAS = {
    "=1+1": "'=1+1",
    "+1": "'+1",
    "-1": "'-1",
    "@SUM(A1)": "'@SUM(A1)",
    "\t=1": "'\t'=1",
    "\n=1": "'\n'=1",
    "\uff1d1": "'\uff1d1",
    "'=1": "'=1",
}


async def account_of(portal: Portal, username: str) -> Account:
    """Return someone's account."""
    return await portal.database.read(
        lambda transaction: find_account(transaction, f"@{username}", param="to")
    )


async def transfer(portal: Portal, sender: str, to: str, amount: str, note: str | None) -> None:
    """Move money from one person to another."""
    account = await account_of(portal, sender)
    posting = Posting(
        transfer_id=new_id("tr_", portal.clock),
        kind="transfer",
        debit_account_id=account.id,
        credit_identifier=f"@{to}",
        amount=micros_from_json(amount.encode()),
        note=note,
    )
    charges = PostingQueue(portal.database, portal.clock, queue_limit=10)
    await charges.post(posting)
    await charges.close()


@pytest.fixture
async def friends(portal: Portal, ada: Visitor) -> Visitor:
    """Ada and Grace, who send each other money on three days."""
    await portal.person("grace", display_name="=cmd|' /C calc'!A0")
    await portal.fund("ada", "1000000.1")
    portal.clock.advance(seconds=DAY_SECONDS)
    await transfer(portal, "ada", "grace", "0.000001", "the least")
    portal.clock.advance(seconds=DAY_SECONDS)
    await transfer(portal, "grace", "ada", "0.000001", "and back")
    await transfer(portal, "ada", "grace", "999999.999999", None)
    return ada


def rows_of(answer: httpx2.Response) -> list[dict[str, str]]:
    """Return the rows of a download, as a spreadsheet reads them."""
    assert answer.status_code == 200, answer.text
    assert answer.content.startswith(b"\xef\xbb\xbf")
    return list(csv.DictReader(io.StringIO(answer.content.decode("utf-8-sig"), newline="")))


async def test_a_long_word_in_a_note_is_cut_and_not_left_out(
    friends: Visitor, portal: Portal
) -> None:
    """The list shows the beginning of an address, for example."""
    await transfer(portal, "grace", "ada", "0.01", f"See https://shop.example/{'x' * 100}")
    assert f"See https://shop.example/{'x' * 52}..." in (await friends.get("/activity")).text


async def test_the_download_has_every_movement_to_the_last_decimal(friends: Visitor) -> None:
    """Amounts and balances are exact, newest first, with the reader's own direction."""
    answer = await friends.get("/activity.csv")
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert answer.headers["content-disposition"] == 'attachment; filename="ousel-ada.csv"'
    shown = [
        (row["kind"], row["direction"], row["amount"], row["balance_after"], row["note"])
        for row in rows_of(answer)
    ]
    assert shown == [
        ("transfer", "out", "999999.999999", "0.100001", ""),
        ("transfer", "in", "0.000001", "1000000.10", "and back"),
        ("transfer", "out", "0.000001", "1000000.099999", "the least"),
        ("funding", "in", "1000000.10", "1000000.10", ""),
    ]
    first = rows_of(answer)[-1]
    assert first["currency"] == "OUSD"
    assert first["time_utc"].endswith("Z")
    assert first["transfer_id"].startswith("tr_")
    assert [row["entry"] for row in rows_of(answer)] == ["4", "3", "2", "1"]


@pytest.mark.one_engine
async def test_no_cell_of_the_download_is_a_formula(portal: Portal, friends: Visitor) -> None:
    """What others wrote, their names included, stays text in every spreadsheet."""
    for note in FORMULAS:
        await transfer(portal, "grace", "ada", "0.01", note)
    rows = rows_of(await friends.get("/activity.csv"))
    notes = [row["note"] for row in rows[: len(FORMULAS)]]
    assert notes == list(reversed(FORMULAS.values()))
    assert rows[0]["counterparty_name"] == "'=cmd|' /C calc'!A0"
    dangerous = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d")
    assert not [cell for row in rows for cell in row.values() if cell.startswith(dangerous)]


@pytest.mark.slow
@pytest.mark.one_engine
@pytest.mark.parametrize(
    ("note", "inert"),
    [
        ("rent;=cmd|' /C calc'!A0;", "rent;'=cmd|' /C calc'!A0;"),
        ("a\t@SUM(A1)", "a\t'@SUM(A1)"),
        ("a\n-1;", "a\n'-1;"),
        (";;=1", ";;'=1"),
        ('a;"=1;"', 'a;"\'=1;"'),
        ('a\n""+1', 'a\n""\'+1'),
        ("a; b - c = d", "a; b - c = d"),
    ],
)
async def test_no_part_of_a_note_becomes_a_formula_where_semicolons_separate_cells(
    portal: Portal, friends: Visitor, note: str, inert: str
) -> None:
    """In many countries spreadsheets separate cells by semicolons instead of commas."""
    await transfer(portal, "grace", "ada", "0.01", note)
    assert rows_of(await friends.get("/activity.csv"))[0]["note"] == inert


async def test_the_download_goes_on_over_many_pages(
    portal: Portal, friends: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long the list, each movement stands in it once, and nothing is held back."""
    for number in range(5):
        await transfer(portal, "grace", "ada", "0.01", f'number {number}, "quoted"\nand below')
    whole = rows_of(await friends.get("/activity.csv"))
    assert len(whole) == 9
    for entries in (1, 2, 3, 8, 9, 10):
        monkeypatch.setattr(activity, "CSV_PAGE_ENTRIES", entries)
        assert rows_of(await friends.get("/activity.csv")) == whole
    assert whole[0]["note"] == 'number 4, "quoted"\nand below'


async def test_movements_that_arrive_while_paging_do_not_disturb_it(
    portal: Portal, friends: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Older movements follow the last one shown, whatever was written since."""
    monkeypatch.setattr(activity, "PAGE_ENTRIES", 2)
    first = (await friends.get("/activity")).text
    await transfer(portal, "grace", "ada", "0.01", "just now")
    older = first.partition('href="/activity?cursor=')[2].partition('"')[0]
    second = (await friends.get(f"/activity?cursor={older}")).text
    assert "the least" in second
    assert "Funding" in second
    assert "just now" not in second
    assert "and back" not in second


FILTERS = {
    "": [4, 3, 2, 1],
    "direction=in": [3, 1],
    "direction=out": [4, 2],
    "kind=funding": [1],
    "kind=transfer&direction=in": [3],
    "kind=charge_payment": [],
    "kind=redemption": [],
    "from={day1}": [4, 3, 2],
    "to={day1}": [2, 1],
    "from={day1}&to={day1}": [2],
    "from={day2}&direction=out": [4],
    "from={day0}&to={day2}": [4, 3, 2, 1],
    "to=1970-01-01": [],
    "from=9999-12-30": [],
    "from=0001-01-01&to=0001-01-01": [],
}


async def test_filters_hold_for_the_page_and_the_download(portal: Portal, friends: Visitor) -> None:
    """Days are whole days in UTC, both ends included; filters add up."""
    days = {
        f"day{number}": timestamp(portal.clock() + (number - 2) * DAY_SECONDS * MICROS_PER_SECOND)
        for number in range(3)
    }
    for query, entries in FILTERS.items():
        wanted = query.format(**{name: moment[:10] for name, moment in days.items()})
        rows = rows_of(await friends.get(f"/activity.csv?{wanted}"))
        assert [int(row["entry"]) for row in rows] == entries, query
        page = (await friends.get(f"/activity?{wanted}")).text
        shown = [part.partition('"')[0] for part in page.split('href="/activity/')[1:]]
        assert [int(number) for number in shown if number.isdigit()] == entries, query
        link = page.partition('href="/activity.csv')[2].partition('"')[0].replace("&amp;", "&")
        assert rows_of(await friends.get(f"/activity.csv{link}")) == rows


async def test_a_movement_has_its_page(friends: Visitor) -> None:
    """Both sides, the exact amount, the balance after it and the entry's hash are there."""
    page = (await friends.get("/activity/4")).text
    for text in ("999,999.999999 OUSD", "0.100001 OUSD", "@ada", "@grace", "4 of your account"):
        assert text in page
    assert (await friends.get("/activity/5")).status_code == 404


@pytest.mark.one_engine
async def test_the_list_shortens_a_long_note(portal: Portal, friends: Visitor) -> None:
    """The page of the movement shows the whole note."""
    note = "Lunch " * 50 + "end"
    await transfer(portal, "grace", "ada", "0.01", note)
    listed = (await friends.get("/activity")).text
    assert f"{('Lunch ' * 13)[:-7]}..." in listed
    assert note not in listed
    assert note in (await friends.get("/activity/5")).text


async def test_people_see_only_their_own_movements(portal: Portal, friends: Visitor) -> None:
    """Another person's page has other movements under the same numbers."""
    assert (await friends.get("/activity/1")).status_code == 200
    eve = await portal.person("eve")
    assert (await eve.get("/activity/1")).status_code == 404
    assert rows_of(await eve.get("/activity.csv")) == []
    assert "No movements yet" in (await eve.get("/activity")).text


async def test_a_broken_download_is_recognizable(
    portal: Portal, friends: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the database fails midway, the file does not end as if it were whole."""
    monkeypatch.setattr(activity, "CSV_PAGE_ENTRIES", 1)
    read, reads = portal.database.read, 0

    async def failing(work: Callable[[Transaction], Awaitable[object]]) -> object:
        nonlocal reads
        reads += 1
        if reads > 2:
            raise DatabaseUnavailable("The database is away.")
        return await read(work)

    monkeypatch.setattr(portal.database, "read", failing)
    with pytest.raises(DatabaseUnavailable):
        await friends.get("/activity.csv")
