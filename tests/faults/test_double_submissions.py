"""Two windows send the same confirmation page at the same time: each intent moves money once."""

import asyncio
from contextlib import AsyncExitStack, ExitStack

import httpx2
import pytest

from ousel.database.port import Database
from ousel.people.passwords import PasswordService
from tests.faults.sizes import sized
from tests.support.accounts import balance, person, verify
from tests.support.engines import Engine
from tests.support.figures import Figure
from tests.support.server import Server
from tests.support.visitor import PASSWORD, Visitor

pytestmark = pytest.mark.slow

INTENTS = sized(10, 1_000)
AT_ONCE = 10
FUNDS = "1000000"


async def send_twice(number: int, windows: list[Visitor]) -> set[str]:
    """Confirm an intent in the first window, and send it from both; return where they lead."""
    button = f"Send {number:,}.00 OUSD"
    first = windows[number % 2]
    prepared = await first.press("/send", "Continue", to="@grace", amount=str(number))
    form = await first.form(prepared.headers["location"], button)
    fields = form.pressed(button, {})
    answers = await asyncio.gather(*(window.send(form, fields) for window in windows))
    assert {answer.status_code for answer in answers} == {303}, [each.text for each in answers]
    return {httpx2.URL(answer.headers["location"]).path for answer in answers}


async def test_each_intent_of_two_windows_moves_money_once(
    database: Database, database_url: str, engine: Engine, figure: Figure
) -> None:
    """Both windows lead to the same movement; on PostgreSQL, each talks to a server of its own."""
    hashed = await PasswordService().hash_password(PASSWORD)
    ada = await person(database, "ada", FUNDS, password_hash=hashed)
    grace = await person(database, "grace")
    with ExitStack() as processes:
        count = 1 if engine == "sqlite" else 2
        origin = "http://ousel.test"
        servers = [
            processes.enter_context(Server(database_url, OUSEL_PORTAL_URL=origin))
            for _ in range(count)
        ]
        async with AsyncExitStack() as clients:
            windows = []
            for number in range(2):
                address = servers[number % count].origin
                client = httpx2.AsyncClient(base_url=address, timeout=60, verify=False)
                windows.append(Visitor(await clients.enter_async_context(client)))
            await windows[0].sign_in("ada")
            windows[1].client.cookies = windows[0].client.cookies
            receipts: list[set[str]] = []
            for start in range(1, INTENTS + 1, AT_ONCE):
                intents = range(start, min(start + AT_ONCE, INTENTS + 1))
                receipts += await asyncio.gather(*(send_twice(each, windows) for each in intents))

    total = INTENTS * (INTENTS + 1) // 2 * 1_000_000
    assert all(len(each) == 1 for each in receipts)
    assert len(set.union(*receipts)) == INTENTS
    assert await balance(database, grace) == total
    assert await balance(database, ada) + total == int(FUNDS) * 1_000_000
    assert (await verify(database)).transfers == INTENTS + 1
    figure(f"{engine}: {INTENTS} intents, each sent by two windows at once, moved money once each")
