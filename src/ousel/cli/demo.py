"""`ousel demo`: a sandbox in one step, with something in it to try."""

import asyncio
import tempfile
from pathlib import Path
from typing import Annotated, Final

import msgspec
import typer
from rich.console import Console

from ousel.accounts.service import NewHolder, open_account
from ousel.cli.console import settings
from ousel.cli.server import bound_socket, prepare, serve_until_stopped
from ousel.database.addresses import database_at
from ousel.database.port import Transaction
from ousel.kernel.clock import system_clock
from ousel.kernel.money import MICROS_PER_UNIT
from ousel.kernel.settings import Settings
from ousel.ledger.funding import fund_account
from ousel.ledger.rules import Account
from ousel.partners.service import FIRST_KEY_NAME, NewApp, create_app, issue_key

PARTNER_FUNDS_MICROS: Final = 10_000 * MICROS_PER_UNIT


class _DemoData(msgspec.Struct, frozen=True):
    key: str
    partner: Account
    recipient: Account


def demo(
    *,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port to listen on.", min=1, max=65535)] = 8000,
) -> None:
    """Run a sandbox on a fresh database: a funded partner, its key, a transfer to copy."""
    origin = f"http://{host}:{port}"
    with tempfile.TemporaryDirectory(prefix="ousel-demo-") as folder:
        wanted = settings(
            str(Path(folder) / "ousel.db"),
            sandbox=True,
            base_url=f"{origin}/v1",
            portal_url=origin,
        )
        listener = bound_socket(host, port)
        data = asyncio.run(_furnished(wanted))
        Console(soft_wrap=True, highlight=False).print(_welcome(wanted, data))
        serve_until_stopped(wanted, listener)


async def _furnished(wanted: Settings) -> _DemoData:
    """Create the demo's accounts, app, key and funds."""
    await prepare(wanted, workers=1)
    database = database_at(wanted.database_url)
    await database.open()
    try:
        data = await database.write(_people)
        await fund_account(database, system_clock, data.partner, PARTNER_FUNDS_MICROS)
        return data
    finally:
        await database.close()


async def _people(transaction: Transaction) -> _DemoData:
    partner = await _person(transaction, "harbour", "Harbour Exchange")
    recipient = await _person(transaction, "ada", "Ada Lovelace")
    await _person(transaction, "grace", "Grace Hopper")
    new = NewApp(account_id=partner.id, name="Harbour Exchange")
    app = await create_app(transaction, new, system_clock)
    issued = await issue_key(transaction, app, FIRST_KEY_NAME, "test", system_clock)
    return _DemoData(issued.secret, partner, recipient)


async def _person(transaction: Transaction, username: str, name: str) -> Account:
    holder = NewHolder(username=username, email=f"{username}@example.com", display_name=name)
    return await open_account(transaction, holder, system_clock)


def _welcome(wanted: Settings, data: _DemoData) -> str:
    return f"""
[bold]Ousel is running: a sandbox on a fresh database, gone when you stop it (Ctrl-C).[/bold]

  partner    @{data.partner.username}, with 10000.00 OUSD and this key:
  key        {data.key}
  people     @ada and @grace
  reference  {wanted.portal_url}/docs

[bold]Send 25.00 to @ada[/bold] (twice, if you like: the key in the header makes it move once):

curl -s {wanted.base_url}/transfers \\
  -H 'Authorization: Bearer {data.key}' \\
  -H 'Content-Type: application/json' \\
  -H 'Idempotency-Key: first-transfer' \\
  -d '{{"to": "@ada", "amount": 25.00, "note": "Hello"}}'
"""
