"""A small book shop that is paid with Ousel: a complete partner application in one file.

Visitors pay for books with charges. The shop follows its account, and delivers each order once when
its payment arrives. People can connect their Ousel account, and the owner can pay the supplier by a
transfer that is safe to repeat.

Each order is stored in SQLite before its charge is created, and its id is in the idempotency key,
so there is only one charge that can be paid. If no answer comes, the visitor finds the order in the
shop and retries. If the charge has expired, the shop creates another with a new key.
"""

import asyncio
import logging
import os
import secrets
import sqlite3
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from decimal import Decimal
from html import escape

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from ousel_client import (
    AsyncClient,
    Holder,
    NotAuthenticated,
    OuselError,
    ProofKey,
    UserToken,
)
from ousel_client.refusals import ChargeNotCancelable

SHOP_URL = os.environ.get("SHOP_URL", "http://127.0.0.1:8001")
CLIENT_ID = os.environ["OUSEL_CLIENT_ID"]
SUPPLIER = os.environ.get("SHOP_SUPPLIER", "@grace")
SUPPLIES = Decimal("5.00")
RETURN_URL = f"{SHOP_URL}/connected"
WAIT_SECONDS = 20.0
DESCRIPTION_CHARACTERS_MAX = 500  # Ousel refuses a longer one
BOOKS = {
    "notes": ("Notes on the Analytical Engine", Decimal("12.50")),
    "compilers": ("The Education of a Computer", Decimal("9.99")),
    "birds": ("A Field Guide to Thrushes", Decimal("24.00")),
}
STYLE = """
:root{color-scheme:light dark;--accent:#0b5f5c;--on-accent:#fff;background:Canvas}
body{font:1rem/1.5 system-ui,sans-serif;max-width:42rem;margin:2rem auto;padding:0 1rem}
h1{line-height:1.2}a{color:var(--accent)}form{display:inline}
button{font:inherit;padding:.625rem 1rem;border:0;border-radius:.5rem;cursor:pointer;
background:var(--accent);color:var(--on-accent)}
ul{list-style:none;padding:0}li{display:flex;flex-wrap:wrap;align-items:center;gap:.25rem 1rem;
margin:.75rem 0}li>span:first-child{flex:1 1 15rem}
.price{margin-left:auto;font-variant-numeric:tabular-nums}
@media(prefers-color-scheme:dark){:root{--accent:#5fd0c5;--on-accent:#06211f}}
"""

ousel = AsyncClient(
    os.environ["OUSEL_KEY"],
    base_url=os.environ.get("OUSEL_BASE_URL", "http://127.0.0.1:8000/v1"),
    portal_url=os.environ.get("OUSEL_PORTAL_URL", "http://127.0.0.1:8000"),
)
database = sqlite3.connect(os.environ.get("SHOP_DATABASE", ":memory:"), isolation_level=None)
database.execute(
    "CREATE TABLE IF NOT EXISTS orders"
    " (id TEXT PRIMARY KEY, visitor TEXT, items TEXT, total TEXT, charge_id TEXT,"
    " delivered INTEGER DEFAULT 0)"
)
database.execute("CREATE TABLE IF NOT EXISTS positions (cursor TEXT)")
carts: dict[str, list[str]] = {}
sign_ins: dict[str, tuple[str, ProofKey]] = {}
tokens: dict[str, UserToken] = {}
thanked: set[str] = set()
delivery = asyncio.Condition()


async def deliver_while_open() -> None:
    """Deliver paid orders. If Ousel refuses the request or cannot be reached, log it and retry."""
    while True:
        try:
            await deliver_paid_orders()
        except (OuselError, sqlite3.Error) as error:
            logging.getLogger("shop").warning("Orders cannot be delivered now: %s", error)
            await asyncio.sleep(WAIT_SECONDS)


async def deliver_paid_orders() -> None:
    """Follow the shop's account, and deliver the order of each payment.

    The delivery and the position are stored together. So if SHOP_DATABASE names a file, no payment
    is missed or handled twice, whenever the shop or Ousel crashes.
    """
    row = database.execute("SELECT cursor FROM positions").fetchone()
    follow = ousel.transfers.follow(None if row is None else row[0])
    async for transfer in follow:
        with database:  # commits at the end, or rolls back
            database.execute("BEGIN")
            if transfer.charge_id is not None:
                database.execute(
                    "UPDATE orders SET delivered = delivered + 1 WHERE charge_id = ?",
                    (transfer.charge_id,),
                )
            database.execute("DELETE FROM positions")
            database.execute("INSERT INTO positions VALUES (?)", (follow.cursor,))
        async with delivery:
            delivery.notify_all()


async def catalogue(request: Request) -> Response:
    """Show the books, the cart, unpaid orders, and who is signed in."""
    visitor = visitor_of(request)
    shelf = "".join(
        f'<li><span id="{slug}">{escape(title)}</span> <span class="price">{price} OUSD</span> '
        f'<form method="post" action="/cart/{slug}">'
        f'<button aria-describedby="{slug}">Add to cart</button></form></li>'
        for slug, (title, price) in BOOKS.items()
    )
    cart = carts.get(visitor, [])
    basket = "<p>Your cart is empty.</p>"
    if cart:
        basket = (
            f"<ul>{''.join(f'<li>{escape(BOOKS[slug][0])}</li>' for slug in cart)}</ul>"
            f'<form method="post" action="/pay"><button>Pay {total_of(cart)} OUSD</button></form>'
        )
    unpaid_orders = "".join(
        f'<div><form method="post" action="/orders/{order_id}/pay">'
        f"<button>Pay your order of {total} OUSD</button></form></div>"
        for order_id, total in database.execute(
            "SELECT id, total FROM orders WHERE visitor = ? AND charge_id IS NULL", (visitor,)
        )
    )
    person = await person_of(visitor)
    return page(
        request,
        "The Blackbird Bookshop",
        f"{await greeting(visitor, person)}<h2>Books</h2><ul>{shelf}</ul>"
        f"<h2>Cart</h2>{basket}{unpaid_orders}{await office(person)}",
    )


async def add_to_cart(request: Request) -> Response:
    """Put a book into the cart."""
    slug = request.path_params["slug"]
    if slug in BOOKS:
        carts.setdefault(visitor_of(request), []).append(slug)
    return redirect(request, "/")


async def pay(request: Request) -> Response:
    """Store an order, and ask for its payment."""
    visitor = visitor_of(request)
    cart = carts.get(visitor)
    if not cart:  # perhaps the button was pressed twice
        last = "SELECT id, delivered FROM orders WHERE visitor = ? ORDER BY rowid DESC"
        row = database.execute(last, (visitor,)).fetchone()
        if row is None or row[1]:
            return redirect(request, "/")
        return await redirect_to_checkout(request, row[0])
    order_id = f"order-{secrets.token_hex(8)}"
    database.execute(
        "INSERT INTO orders (id, visitor, items, total) VALUES (?, ?, ?, ?)",
        (order_id, visitor, ",".join(cart), total_of(cart)),
    )
    del carts[visitor]
    return await redirect_to_checkout(request, order_id)


async def pay_order(request: Request) -> Response:
    """Ask again for the payment of a stored order."""
    return await redirect_to_checkout(request, request.path_params["order_id"])


async def redirect_to_checkout(request: Request, order_id: str) -> Response:
    """Send the payer to the checkout page of the order, which has one charge that can be paid."""
    row = database.execute("SELECT items, total FROM orders WHERE id = ?", (order_id,)).fetchone()
    if row is None:
        return page(request, "No such order", '<p><a href="/">Back to the shop</a></p>', 404)
    items, total = row
    titles = ", ".join(BOOKS[slug][0] for slug in items.split(","))
    attempt = 1
    while True:
        charge = await ousel.charges.create(
            amount=Decimal(total),
            description=titles[:DESCRIPTION_CHARACTERS_MAX],
            reference=order_id,
            success_url=f"{SHOP_URL}/orders/{order_id}",
            cancel_url=f"{SHOP_URL}/orders/{order_id}/canceled",
            idempotency_key=order_id if attempt == 1 else f"{order_id}-{attempt}",
        )
        if charge.status not in {"canceled", "expired"}:
            break
        attempt += 1  # this key returns the same charge for ever: a new charge needs a new key
    database.execute("UPDATE orders SET charge_id = ? WHERE id = ?", (charge.id, order_id))
    return redirect(request, charge.checkout_url)


async def order(request: Request) -> Response:
    """Show whether the order is paid: the payer's return does not prove it."""
    order_id = request.path_params["order_id"]
    row = database.execute("SELECT charge_id FROM orders WHERE id = ?", (order_id,)).fetchone()
    if row is None or row[0] is None:
        return page(request, "No such order", '<p><a href="/">Back to the shop</a></p>', 404)
    charge = await ousel.charges.get(row[0])
    if charge.status == "canceled":
        return page(request, "The payment is canceled", '<p><a href="/">Back to the shop</a></p>')
    if charge.status == "expired":
        return page(
            request,
            "The payment has expired",
            f'<div><form method="post" action="/orders/{order_id}/pay">'
            '<button>Pay again</button></form></div><p><a href="/">Back to the shop</a></p>',
        )
    try:
        async with asyncio.timeout(WAIT_SECONDS), delivery:
            await delivery.wait_for(lambda: is_delivered(order_id))
    except TimeoutError:
        return page(request, "Not paid yet", f'<p><a href="/orders/{order_id}">Check again</a></p>')
    news = (
        "Your books were sent earlier." if order_id in thanked else "Your books are on their way."
    )
    thanked.add(order_id)
    return page(request, "Thank you", f'<p>{news}</p><p><a href="/">Back to the shop</a></p>')


async def canceled(request: Request) -> Response:
    """Cancel the charge of a payer who gave up, and put the books back into the cart."""
    order_id = request.path_params["order_id"]
    row = database.execute(
        "SELECT charge_id, items FROM orders WHERE id = ?", (order_id,)
    ).fetchone()
    if row is None or row[0] is None:
        return page(request, "No such order", '<p><a href="/">Back to the shop</a></p>', 404)
    try:
        await ousel.charges.cancel(row[0])
    except ChargeNotCancelable:  # it is already paid, canceled or expired
        return redirect(request, f"/orders/{order_id}")
    carts.setdefault(visitor_of(request), []).extend(row[1].split(","))
    return redirect(request, "/")


async def connect(request: Request) -> Response:
    """Send a person to Ousel to connect their account."""
    state, proof_key = secrets.token_urlsafe(16), ProofKey()
    sign_ins[visitor_of(request)] = (state, proof_key)
    return redirect(
        request,
        ousel.connect_url(
            client_id=CLIENT_ID,
            redirect_uri=RETURN_URL,
            state=state,
            scope=("profile", "balance"),
            proof_key=proof_key,
        ),
    )


async def connected(request: Request) -> Response:
    """Exchange the code with which a person returned."""
    visitor = visitor_of(request)
    state, proof_key = sign_ins.pop(visitor, ("", ProofKey()))
    try:
        code = ousel.code_from(str(request.url), state=state)
        tokens[visitor] = await ousel.exchange_code(
            code,
            client_id=CLIENT_ID,
            redirect_uri=RETURN_URL,
            code_verifier=proof_key.verifier,
        )
    except OuselError as error:
        reason = escape(str(error))
        return page(request, "Not connected", f'<p>{reason}</p><p><a href="/">Back</a></p>', 400)
    return redirect(request, "/")


async def pay_supplier(request: Request) -> Response:
    """Pay the supplier once a month, however often the owner asks. Only the owner may ask."""
    if not await is_owner(await person_of(visitor_of(request))):
        return page(request, "Only for the owner", '<p><a href="/">Back to the shop</a></p>', 403)
    month = time.strftime("%Y-%m", time.gmtime())
    transfer = await ousel.transfers.send(
        to=SUPPLIER,
        amount=SUPPLIES,
        note=f"Books of {month}",
        idempotency_key=f"supplier-{month}",
    )
    return page(
        request,
        "The supplier is paid",
        f"<p>Transfer {transfer.id}; the shop has {transfer.balance_after:.2f} OUSD left.</p>"
        '<p><a href="/">Back to the shop</a></p>',
    )


async def person_of(visitor: str) -> Holder | None:
    """Return the person whose account is connected, or None."""
    token = tokens.get(visitor)
    if token is None:
        return None
    try:
        return await ousel.user(token.access_token).me()
    except NotAuthenticated:  # the token has expired or was revoked
        if tokens.get(visitor) is token:  # another request may have renewed or removed it
            del tokens[visitor]
        return None


async def is_owner(person: Holder | None) -> bool:
    """Return whether the shop's key belongs to this person."""
    return person is not None and person.id == (await ousel.me()).id


async def greeting(visitor: str, person: Holder | None) -> str:
    """Return a greeting, or a link to connect an account."""
    token = tokens.get(visitor)
    if person is None or token is None:
        return '<p><a href="/connect">Connect with Ousel</a></p>'
    balance = await ousel.user(token.access_token).balance()
    return f"<p>Hello, {escape(person.display_name)}. You have {balance.available:.2f} OUSD.</p>"


async def office(person: Holder | None) -> str:
    """Return what only the owner of the shop sees."""
    if not await is_owner(person):
        return ""
    return (
        '<h2>Office</h2><form method="post" action="/supplier">'
        f"<button>Pay the supplier, {escape(SUPPLIER)}, {SUPPLIES} OUSD</button></form>"
    )


async def show_error(request: Request, error: Exception) -> Response:
    """Show why Ousel refused or could not be reached. The visitor can try again."""
    reason = escape(str(error))
    return page(request, "Please try again", f'<p>{reason}</p><p><a href="/">Back</a></p>', 502)


def is_delivered(order_id: str) -> bool:
    """Return whether the order is paid and delivered."""
    row = database.execute("SELECT delivered FROM orders WHERE id = ?", (order_id,)).fetchone()
    return bool(row[0])


def total_of(cart: list[str]) -> str:
    """Return the price of all books in a cart."""
    return f"{sum((BOOKS[slug][1] for slug in cart), Decimal(0)):.2f}"


def visitor_of(request: Request) -> str:
    """Return the random id of this browser."""
    if not hasattr(request.state, "visitor"):
        request.state.visitor = request.cookies.get("visitor") or secrets.token_urlsafe(16)
    return str(request.state.visitor)


def page(request: Request, title: str, body: str, status: int = 200) -> Response:
    """Return a page of the shop."""
    html = (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{STYLE}</style><h1>{escape(title)}</h1>{body}</html>"
    )
    return with_visitor_cookie(request, HTMLResponse(html, status))


def redirect(request: Request, target: str) -> Response:
    """Send the browser to another address."""
    return with_visitor_cookie(request, RedirectResponse(target, 303))


def with_visitor_cookie(request: Request, response: Response) -> Response:
    """Store the id of the browser in a cookie."""
    response.set_cookie("visitor", visitor_of(request), httponly=True, samesite="lax")
    return response


@asynccontextmanager
async def lifespan(_: Starlette) -> AsyncIterator[None]:
    """Deliver orders while the shop is open. Then close the connections to Ousel."""
    delivering = asyncio.create_task(deliver_while_open())
    yield
    delivering.cancel()
    await asyncio.gather(delivering, return_exceptions=True)
    await ousel.close()


shop = Starlette(
    routes=[
        Route("/", catalogue),
        Route("/cart/{slug}", add_to_cart, methods=["POST"]),
        Route("/pay", pay, methods=["POST"]),
        Route("/orders/{order_id}", order),
        Route("/orders/{order_id}/pay", pay_order, methods=["POST"]),
        Route("/orders/{order_id}/canceled", canceled),
        Route("/connect", connect),
        Route("/connected", connected),
        Route("/supplier", pay_supplier, methods=["POST"]),
    ],
    exception_handlers={OuselError: show_error},
    lifespan=lifespan,
)

if __name__ == "__main__":
    uvicorn.run(shop, host="127.0.0.1", port=int(SHOP_URL.rpartition(":")[2]), log_level="warning")
