"""The mail of a sandbox, which is not sent: partners read it to test how people sign up."""

import httpx2
import pytest

from ousel.api.paging import cursor_at
from ousel.database.port import Database
from ousel.kernel.clock import system_clock
from tests.support.accounts import unique_name
from tests.support.mail import code_in
from tests.support.server import Server
from tests.support.shop import open_shop
from tests.support.visitor import Visitor

pytestmark = pytest.mark.slow


async def test_a_partner_reads_the_mail_and_the_email_finds_the_account_once_it_is_confirmed(
    server: Server, database: Database
) -> None:
    """Before, neither the look-up nor a transfer finds it; `/me` says whether it is confirmed."""
    username = unique_name()
    email = f"{username}@example.com"
    shop = await open_shop(database, system_clock, kind="test")
    async with (
        server.client(shop.key) as client,
        httpx2.AsyncClient(base_url=server.origin, verify=False) as browser,
    ):
        person = Visitor(browser)
        assert (await person.sign_up(username)).status_code == 303
        path, transfer = f"/accounts/{email}", {"to": email, "amount": 1}
        await client.post("/sandbox/fund", json={"to": shop.merchant.account_number, "amount": 5})
        assert (await client.get(path)).json()["code"] == "account_not_found"
        assert (await client.post("/transfers", json=transfer)).json()[
            "code"
        ] == "account_not_found"

        listed = (await client.get("/sandbox/mail", params={"to": email.upper()})).json()

        [mail] = listed["data"]
        assert (listed["object"], listed["has_more"]) == ("list", False)
        assert list(mail) == ["object", "to", "subject", "text", "created_at"]
        assert (mail["object"], mail["to"]) == ("mail", email)
        await person.press("/verify-email", "Confirm email", code=code_in(mail["text"]))
        assert (await client.get(path)).json()["username"] == username
        assert (await client.post("/transfers", json=transfer)).status_code == 201


async def test_the_list_can_be_paged(server: Server, database: Database) -> None:
    """Nothing is skipped or repeated; parameters that are not valid are refused."""
    shop = await open_shop(database, system_clock, kind="test")
    async with server.client(shop.key) as client:
        for _ in range(3):
            async with httpx2.AsyncClient(base_url=server.origin, verify=False) as browser:
                await Visitor(browser).sign_up(unique_name())
        pages: list[str] = []
        cursor = None
        while len(pages) < 3:
            query = {"limit": "1"} if cursor is None else {"limit": "1", "cursor": cursor}
            page = (await client.get("/sandbox/mail", params=query)).json()
            pages.append(page["data"][0]["to"])
            cursor = page["next_cursor"]
        refused = [
            (await client.get("/sandbox/mail", params=query)).status_code
            for query in (
                {"limit": "0"},
                {"cursor": "nonsense"},
                {"cursor": cursor_at("mail_\0")},
                {"to": "\0"},
                {"to": "x" * 255},
                {"from": "ada"},
            )
        ]
        nothing = (await client.get("/sandbox/mail", params={"to": "x\N{SNOWMAN}"})).json()
    assert len(set(pages)) == 3
    assert refused == [400] * 6
    assert nothing["data"] == []
