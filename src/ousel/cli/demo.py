"""`ousel demo`: a sandbox in one step, with people, money and a shop to try."""

import asyncio
import os
import socket
from contextlib import nullcontext
from typing import Annotated, Any, Final

import msgspec
import typer
from rich.console import Console

from ousel.accounts.service import AccountService, NewHolder
from ousel.cli.console import JsonOption, show
from ousel.cli.databases import (
    database_file,
    run_with,
    run_with_outbox,
    temporary_database,
)
from ousel.cli.server import (
    address_at,
    claim_database_mode,
    listen_or_fail,
    prepare_to_serve,
    serve_until_stopped,
)
from ousel.cli.shop import run_shop, shop_can_run
from ousel.kernel.money import MICROS_PER_UNIT
from ousel.kernel.settings import PORT_DEFAULT, PORT_MAX, Settings
from ousel.observation.logs import log_to_standard_error
from ousel.partners.operator_service import CreatedApp, OperatorService
from ousel.people.passwords import PasswordService
from ousel.sealed_log.keys import KeyHolder

FUNDS_MICROS: Final = 10_000 * MICROS_PER_UNIT
PASSWORD: Final = "only-a-sandbox"  # noqa: S105 - printed for all to see
PARTNER: Final = "blackbird"
PEOPLE: Final = {
    PARTNER: "The Blackbird Bookshop",
    "ada": "Ada Lovelace",
    "grace": "Grace Hopper",
}
# A browser cannot open "all addresses", so links name the loopback address instead.
_LOOPBACK: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - chosen by the caller
_SHOP_STEPS: Final = f"""
[bold]Try the shop:[/bold] put a book into the shop's cart, pay as ada, and connect with Ousel.
If you connect as {PARTNER}, who owns the shop, the shop also shows a button that pays its supplier.
"""


class _Demo(msgspec.Struct, frozen=True):
    """What the demo prints and passes on to the shop."""

    settings: Settings
    shop_url: str
    client_id: str
    key: str
    log_key: str | None


def demo(
    *,
    host: Annotated[
        str, typer.Option(help="The address to listen on. With 0.0.0.0, links name 127.0.0.1.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(help="The port to listen on.", min=1, max=PORT_MAX)
    ] = PORT_DEFAULT,
    shop_port: Annotated[int, typer.Option(help="The shop's port.", min=1, max=PORT_MAX)] = 8001,
    database: Annotated[
        str | None,
        typer.Option(metavar="URL", help="An empty database to fill; default: a temporary one."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Run a sandbox on a fresh database: people with money, a partner's key, and its shop."""
    # The environment may hold the settings of a real installation. A demo must not use its keys,
    # its witnesses or its mail server, nor fail because it cannot read them.
    for name in [each for each in os.environ if each.startswith("OUSEL_")]:
        del os.environ[name]
    reason = "the database is not empty: a demo needs an empty one"
    with temporary_database(database, message=reason) as url:
        listener = listen_or_fail(host, port)
        no_shop = _why_no_shop(port, shop_port)
        origin = address_at(_LOOPBACK.get(host, host), port)
        server_settings = Settings(
            database_url=url,
            sandbox=True,
            base_url=f"{origin}/v1",
            portal_url=origin,
            log_level="warning",
        )
        demo_data = _fill(server_settings, port, f"http://127.0.0.1:{shop_port}")
        with nullcontext() if no_shop else run_shop(_environment(demo_data)):
            if as_json:
                show(_record(demo_data, runs_shop=no_shop is None), as_json=True)
            else:
                database_lifetime = (
                    "which is deleted when you stop Ousel"
                    if database is None
                    else "which is kept when you stop Ousel"
                )
                welcome = _welcome(demo_data, no_shop, database_lifetime)
                Console(soft_wrap=True, highlight=False).print(welcome)
            log_to_standard_error(server_settings.log_level)
            serve_until_stopped(server_settings, listener)


def _is_in_use(port: int) -> bool:
    """Return whether something already listens on this port."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def _why_no_shop(port: int, shop_port: int) -> str | None:
    """Return why the shop cannot run, or None if it can."""
    if not shop_can_run():
        return "not installed: it needs the packages ousel-client and starlette"
    if shop_port == port or _is_in_use(shop_port):
        return f"not running: port {shop_port} is taken; choose another with --shop-port"
    return None


def _fill(server_settings: Settings, port: int, shop_url: str) -> _Demo:
    """Create the demo's people with their money, and the partner's app with its key."""
    asyncio.run(prepare_to_serve(server_settings, port, workers=1, migrates=True))
    asyncio.run(claim_database_mode(server_settings))
    run_with(server_settings.database_url, AccountService, _open_accounts)
    created = run_with_outbox(
        server_settings.database_url,
        OperatorService,
        lambda service: _create_app(service, shop_url),
        server_settings=server_settings,
    )
    holder = KeyHolder(server_settings)
    run_with(server_settings.database_url, lambda database, _: database, holder.read)
    verifier = None if holder.key is None else str(holder.key.verifier)
    return _Demo(server_settings, shop_url, created.app.id, created.issued.secret, verifier)


async def _open_accounts(service: AccountService) -> None:
    password_hash = await PasswordService().hash_password(PASSWORD)
    for username, name in PEOPLE.items():
        holder = NewHolder(
            username=username,
            email=f"{username}@example.com",
            display_name=name,
            password_hash=password_hash,
        )
        account = await service.open(holder)
        await service.fund(account, FUNDS_MICROS)


async def _create_app(service: OperatorService, shop_url: str) -> CreatedApp:
    redirect_uris = [f"{shop_url}/connected"]
    return await service.create_app(f"@{PARTNER}", PEOPLE[PARTNER], redirect_uris, origins=[])


def _environment(demo_data: _Demo) -> dict[str, str]:
    return {
        "OUSEL_BASE_URL": demo_data.settings.base_url,
        "OUSEL_PORTAL_URL": demo_data.settings.portal_url,
        "OUSEL_KEY": demo_data.key,
        "OUSEL_CLIENT_ID": demo_data.client_id,
        "SHOP_URL": demo_data.shop_url,
    }


def _record(demo_data: _Demo, *, runs_shop: bool) -> dict[str, Any]:
    server_settings = demo_data.settings
    return {
        "base_url": server_settings.base_url,
        "portal_url": server_settings.portal_url,
        "mail_url": f"{server_settings.portal_url}/sandbox/mail",
        "shop_url": demo_data.shop_url if runs_shop else None,
        "usernames": list(PEOPLE),
        "password": PASSWORD,
        "partner": PARTNER,
        "client_id": demo_data.client_id,
        "key": demo_data.key,
        "database": database_file(server_settings.database_url),
        "log_key": demo_data.log_key,
    }


def _welcome(demo_data: _Demo, no_shop: str | None, database_lifetime: str) -> str:
    server_settings = demo_data.settings
    names = ", ".join(PEOPLE)
    steps = "" if no_shop else _SHOP_STEPS
    call = f"""\\
  -H 'Authorization: Bearer {demo_data.key}' \\
  -H 'Content-Type: application/json' \\"""
    return f"""
[bold]Ousel is running: a sandbox on a fresh database, {database_lifetime} (Ctrl-C).[/bold]

  shop           {no_shop or demo_data.shop_url}
  portal         {server_settings.portal_url}
  mail           {server_settings.portal_url}/sandbox/mail
  documentation  {server_settings.portal_url}/docs
  people         {names}: each with 10000.00 OUSD and the password {PASSWORD}
  partner        @{PARTNER}, with the key {demo_data.key}
  database       {database_file(server_settings.database_url) or "the one that you named"}
  log key        {demo_data.log_key or "none: a demo on PostgreSQL signs nothing"}
{steps}
[bold]Try it as a new user:[/bold] create an account at {server_settings.portal_url}/signup, choose
“Confirm your email”, and open the link in the mail of the sandbox. In a private window, sign in
as ada and send yourself some money ({server_settings.portal_url}/send), or press “Get test money”
in your activity. Then send some of it on to grace.

[bold]Send 25.00 to @ada[/bold] (if you repeat it, the idempotency key prevents a second transfer):

curl -s {server_settings.base_url}/transfers {call}
  -H 'Idempotency-Key: first-transfer' \\
  -d '{{"to": "@ada", "amount": 25.00, "note": "Hello"}}'

[bold]Ask for a payment[/bold], open its checkout_url, sign in as ada and pay:

curl -s {server_settings.base_url}/charges {call}
  -d '{{"amount": 12.50, "description": "Two books", "reference": "order-1001"}}'

[bold]Write a program of your own[/bold] in Python, as the tutorials in the documentation show. Set:

export OUSEL_BASE_URL={server_settings.base_url} OUSEL_KEY={demo_data.key}
"""
