"""The clients and the example shop get full marks, on a sandbox with several processes."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any

import httpx2
import pytest

from clients.python.tests.client_kinds import client_of
from clients.python.tests.test_connect import token_for
from ousel.cli.shop import run_shop
from ousel.database.addresses import open_database
from ousel_client import AsyncClient, NotAuthenticated, RetryPolicy, ReturnNotTrusted
from tests.support.accounts import partner, person, unique_name
from tests.support.engines import ENGINES, Engine, Engines
from tests.support.node import NODE
from tests.support.partner_program import run_partner_program
from tests.support.ports import free_port
from tests.support.seeded import REDIRECT_URI, SeededServer
from tests.support.server import Server, wait_for_http
from tests.support.waiting import until_async

pytestmark = pytest.mark.slow

SENDING = (
    "answer-lost-after-commit",
    "answer-lost-before-commit",
    "unavailable",
    "unavailable-retry-after",
    "rate-limited",
    "slow",
)
LISTED = 5
TYPESCRIPT = Path(__file__).parents[2] / "clients/typescript/tests/programs/lab.mjs"


@pytest.fixture(scope="module")
def servers(
    engines: Engines, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[Engine], Server]]:
    """Sandboxes for all tests, one on each engine; on PostgreSQL, two processes serve it."""
    with ExitStack() as running:

        def start(engine: Engine) -> Server:
            workers = ("--workers", "2") if engine == "postgresql" else ()
            url = engines.fresh_url(engine, tmp_path_factory.mktemp("lab"))
            return running.enter_context(Server(url, "--sandbox", *workers))

        yield cache(start)


@pytest.fixture
def server(servers: Callable[[Engine], Server], engine: Engine) -> Server:
    """The sandbox on this engine."""
    return servers(engine)


async def a_partner(server: Server, redirect_uri: str = REDIRECT_URI) -> SeededServer:
    """Create a partner with an app of its own, which has 100 OUSD in several transfers."""
    async with open_database(server.database_url) as database:
        opened = await partner(database, unique_name(), None, "test", redirect_uris=[redirect_uri])
    seeded = SeededServer(server.database_url, *opened, server=server)
    async with server.client(seeded.key) as http:
        for _ in range(LISTED):
            fund = {"to": f"@{opened.account.username}", "amount": 100 / LISTED}
            assert (await http.post("/sandbox/fund", json=fund)).status_code == 201
    return seeded


@asynccontextmanager
async def rehearsing(seeded: SeededServer, name: str) -> AsyncIterator[tuple[AsyncClient, Any]]:
    """Yield a client and a rehearsal; at the end, check that the client got full marks."""
    async with client_of("asyncio", seeded.key, seeded.base_url, retry=RetryPolicy()) as client:
        rehearsal = await client.sandbox.start_rehearsal(name)
        yield client, rehearsal
        graded = await client.sandbox.finish_rehearsal(rehearsal.id)
        failed = [grade for grade in graded.grades if grade.verdict == "failed"]
        assert (graded.result, failed) == ("passed", []), (name, graded.grades)


async def send(seeded: SeededServer, name: str, recipient: str) -> None:
    """Send a transfer while its calls are disturbed."""
    async with rehearsing(seeded, name) as (client, _):
        sent = await client.transfers.send(to=recipient, amount="1.25")
        assert sent.amount + sent.balance_after == 100


async def use_revoked_key(seeded: SeededServer) -> None:
    """Make calls until the key is refused."""
    async with rehearsing(seeded, "key-revoked") as (client, _):
        await client.me()
        with pytest.raises(NotAuthenticated):
            await client.transfers.send(to="@nobody", amount=1)


async def use_expired_token(seeded: SeededServer, token: str) -> None:
    """Read a person's profile until the token is refused."""
    async with rehearsing(seeded, "token-expired") as (client, _):
        user = client.user(token)
        await user.me()
        with pytest.raises(NotAuthenticated):
            await user.me()


async def wait_for_charges(seeded: SeededServer) -> None:
    """Wait for a charge that is paid late and for one that expires; each moves the clock."""
    for name, status in (("paid-in-last-second", "paid"), ("charge-expires", "expired")):
        async with rehearsing(seeded, name) as (client, _):
            charge = await client.charges.create(amount=5)
            assert (await client.charges.wait(charge.id)).status in (status, "expired")


async def read_a_growing_list(seeded: SeededServer) -> None:
    """Read all transfers of an account while others arrive."""
    async with rehearsing(seeded, "page-shifts") as (client, _):
        ids = [each.id async for each in client.transfers.list()]
        assert len(ids) == len(set(ids)) == LISTED


async def refuse_a_forged_return(seeded: SeededServer) -> None:
    """Follow the forged return, and refuse its state."""
    async with (
        rehearsing(seeded, "forged-return") as (client, rehearsal),
        httpx2.AsyncClient(verify=False) as browser,
    ):
        redirect = await browser.get(rehearsal.return_url)
        assert redirect.status_code == 303
        with pytest.raises(ReturnNotTrusted):
            client.code_from(redirect.headers["location"], state="another")


@pytest.mark.parametrize("engine", ENGINES[-1:])  # on PostgreSQL, two processes serve
async def test_the_python_client_gets_full_marks_in_every_rehearsal(server: Server) -> None:
    """Each rehearsal has an app of its own, so all run at the same time.

    The partners get their money first: when a rehearsal has moved the clock of one process, another
    may for a moment refuse to fund an account.
    """
    async with open_database(server.database_url) as database:
        recipient = await person(database, unique_name())
    *senders, revoked, connected, merchant, reader, visited = [
        await a_partner(server) for _ in range(len(SENDING) + 5)
    ]
    async with client_of("asyncio", connected.key, connected.base_url) as client:
        token, _ = await token_for(client, connected, "profile")

    await asyncio.gather(
        *(
            send(sender, name, recipient.account_number)
            for sender, name in zip(senders, SENDING, strict=True)
        ),
        use_revoked_key(revoked),
        use_expired_token(connected, token.access_token),
        wait_for_charges(merchant),
        read_a_growing_list(reader),
        refuse_a_forged_return(visited),
    )


async def run_typescript(server: Server, name: str, recipient: str) -> Any:
    """Let the TypeScript client do what a rehearsal needs, and return what it saw."""
    seeded = await a_partner(server)
    options = {
        "baseUrl": server.base_url,
        "portalUrl": server.origin,
        "key": seeded.key,
        "to": recipient,
        "rehearsal": name,
    }
    async with rehearsing(seeded, name):
        return await run_partner_program(NODE, TYPESCRIPT, options=options)


@pytest.mark.one_engine
async def test_the_typescript_client_gets_full_marks(server: Server) -> None:
    """Each rehearsal has an app of its own; those that move the clock run one after the other."""
    async with open_database(server.database_url) as database:
        recipient = (await person(database, unique_name())).account_number

    *sent, refused, listed = await asyncio.gather(
        *(run_typescript(server, name, recipient) for name in SENDING),
        run_typescript(server, "key-revoked", recipient),
        run_typescript(server, "page-shifts", recipient),
    )
    outcomes = [
        await run_typescript(server, name, recipient)
        for name in ("paid-in-last-second", "charge-expires")
    ]

    assert {*sent} == {"1.25"}
    assert (refused, listed) == ("unauthorized", LISTED)
    assert outcomes in (["paid", "expired"], ["expired", "expired"])


@asynccontextmanager
async def open_example_shop(server: Server) -> AsyncIterator[tuple[SeededServer, Any]]:
    """Run the example shop, and yield its partner and a browser that visits it."""
    shop_url = f"http://127.0.0.1:{free_port()}"
    seeded = await a_partner(server, f"{shop_url}/connected")
    environment = {
        "OUSEL_KEY": seeded.key,
        "OUSEL_CLIENT_ID": seeded.app.id,
        "OUSEL_BASE_URL": server.base_url,
        "OUSEL_PORTAL_URL": server.origin,
        "SHOP_URL": shop_url,
    }
    with run_shop(environment):
        await asyncio.to_thread(wait_for_http, shop_url)
        async with httpx2.AsyncClient(base_url=shop_url, verify=False) as browser:
            yield seeded, browser


@pytest.mark.one_engine
async def test_the_example_shop_gets_full_marks(server: Server) -> None:
    """It creates charges, settles an order that is paid late, and refuses a forged return."""
    async with open_example_shop(server) as (seeded, browser):
        for name in ("answer-lost-after-commit", "unavailable", "rate-limited"):
            async with rehearsing(seeded, name):
                await browser.post("/cart/notes")
                assert (await browser.post("/pay")).status_code == 303
        async with rehearsing(seeded, "paid-in-last-second") as (client, _):
            await browser.post("/cart/notes")
            await browser.post("/pay")
            charges = [each async for each in client.charges.list()]
            order_url = charges[0].success_url

            async def is_settled() -> bool:
                order = await browser.get(order_url)
                return "Thank you" in order.text or "expired" in order.text

            await until_async(is_settled)
        async with rehearsing(seeded, "forged-return") as (_, rehearsal):
            returned = await browser.get(rehearsal.return_url, follow_redirects=True)
            assert "Not connected" in returned.text
