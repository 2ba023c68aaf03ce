"""A small book shop that is paid with Ousel: what a partner's software looks like, in one file.

It sells by charges and delivers once; lets people sign in with their Ousel account; and pays its
supplier by a transfer that is safe to repeat. Orders are kept in SQLite, each with the key that
makes its charge happen once, written down before anything is sent.
"""

import os
import secrets
import sqlite3
from decimal import Decimal
from html import escape
from urllib.parse import parse_qs

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from ousel_client import AsyncClient, OuselError, ProofKey, UserToken, WaitTimedOut
from ousel_client.refusals import ChargeNotCancelable

SHOP_URL = os.environ.get("SHOP_URL", "http://127.0.0.1:8001")
CLIENT_ID = os.environ["OUSEL_CLIENT_ID"]
SUPPLIER = os.environ.get("SHOP_SUPPLIER", "@grace")
SUPPLIES = Decimal("5.00")
RETURN_URL = f"{SHOP_URL}/connected"
WAIT_SECONDS = 20.0
BOOKS = {
    "notes": ("Notes on the Analytical Engine", Decimal("12.50")),
    "compilers": ("The Education of a Computer", Decimal("9.99")),
    "birds": ("A Field Guide to Thrushes", Decimal("24.00")),
}
STYLE = """
:root{color-scheme:light dark}body{font:1rem/1.5 system-ui,sans-serif;max-width:42rem;margin:2rem
auto;padding:0 1rem}a,button{color:#0b5f5c}button{font:inherit;padding:.5rem 1rem;cursor:pointer}
li{margin:.75rem 0}.price{font-variant-numeric:tabular-nums}form{display:inline}
@media(prefers-color-scheme:dark){a,button{color:#5fd0c5}}
"""

ousel = AsyncClient(
    os.environ["OUSEL_KEY"],
    base_url=os.environ.get("OUSEL_BASE_URL", "http://127.0.0.1:8000/v1"),
    portal_url=os.environ.get("OUSEL_PORTAL_URL", "http://127.0.0.1:8000"),
)
books = sqlite3.connect(os.environ.get("SHOP_DATABASE", ":memory:"), isolation_level=None)
books.execute(
    "CREATE TABLE IF NOT EXISTS orders"
    " (id TEXT PRIMARY KEY, items TEXT, total TEXT, charge_id TEXT, delivered INTEGER DEFAULT 0)"
)
carts: dict[str, list[str]] = {}
sign_ins: dict[str, tuple[str, ProofKey]] = {}
tokens: dict[str, UserToken] = {}


async def catalogue(request: Request) -> Response:
    """Show the books, the cart, and who is signed in."""
    visitor = visitor_of(request)
    shelf = "".join(
        f'<li>{escape(title)} <span class="price">{price}</span> '
        f'<form method="post" action="/cart/{slug}"><button>Add to cart</button></form></li>'
        for slug, (title, price) in BOOKS.items()
    )
    cart = carts.get(visitor, [])
    total = sum((BOOKS[slug][1] for slug in cart), Decimal(0))
    basket = "<p>Your cart is empty.</p>"
    if cart:
        titles = "".join(f"<li>{escape(BOOKS[slug][0])}</li>" for slug in cart)
        basket = (
            f"<ul>{titles}</ul>"
            f'<form method="post" action="/pay"><button>Pay {total:.2f} OUSD</button></form>'
        )
    return page(
        request,
        "The Blackbird Bookshop",
        f"{await greeting(visitor)}<h2>Books</h2><ul>{shelf}</ul><h2>Cart</h2>{basket}"
        f'<h2>Office</h2><form method="post" action="/supplier">'
        f'<input type="hidden" name="key" value="supplier-{secrets.token_hex(8)}">'
        f"<button>Pay the supplier, {escape(SUPPLIER)}, {SUPPLIES} OUSD</button></form>",
    )


async def add_to_cart(request: Request) -> Response:
    """Put a book into the cart."""
    slug = request.path_params["slug"]
    if slug in BOOKS:
        carts.setdefault(visitor_of(request), []).append(slug)
    return redirect(request, "/")


async def pay(request: Request) -> Response:
    """Write an order down, ask for its payment, and send the payer to the checkout page."""
    cart = carts.pop(visitor_of(request), [])
    if not cart:
        return redirect(request, "/")
    order_id = f"order-{secrets.token_hex(8)}"
    total = sum((BOOKS[slug][1] for slug in cart), Decimal(0))
    books.execute(
        "INSERT INTO orders (id, items, total) VALUES (?, ?, ?)",
        (order_id, ",".join(cart), str(total)),
    )
    charge = await ousel.charges.create(
        amount=total,
        description=", ".join(BOOKS[slug][0] for slug in cart),
        reference=order_id,
        success_url=f"{SHOP_URL}/orders/{order_id}",
        cancel_url=f"{SHOP_URL}/orders/{order_id}/canceled",
        idempotency_key=order_id,
    )
    books.execute("UPDATE orders SET charge_id = ? WHERE id = ?", (charge.id, order_id))
    return redirect(request, charge.checkout_url)


async def order(request: Request) -> Response:
    """Ask Ousel how the payment went: that the payer came back proves nothing."""
    order_id = request.path_params["order_id"]
    found = books.execute("SELECT charge_id FROM orders WHERE id = ?", (order_id,)).fetchone()
    if found is None or found[0] is None:
        return page(request, "No such order", '<p><a href="/">Back to the shop</a></p>', 404)
    try:
        charge = await ousel.charges.wait(found[0], timeout_seconds=WAIT_SECONDS)
    except WaitTimedOut:
        return page(request, "Not paid yet", f'<p><a href="/orders/{order_id}">Look again</a></p>')
    if charge.status != "paid":
        return page(request, f"The payment is {charge.status}", '<p><a href="/">Shop on</a></p>')
    delivered = books.execute(
        "UPDATE orders SET delivered = 1 WHERE id = ? AND delivered = 0", (order_id,)
    )
    news = "Your books are on their way." if delivered.rowcount else "Your books left already."
    return page(request, "Thank you", f'<p>{news}</p><p><a href="/">Shop on</a></p>')


async def canceled(request: Request) -> Response:
    """Cancel the charge of a payer who turned back, and put the books into the cart again."""
    order_id = request.path_params["order_id"]
    found = books.execute(
        "SELECT charge_id, items FROM orders WHERE id = ?", (order_id,)
    ).fetchone()
    if found is None or found[0] is None:
        return page(request, "No such order", '<p><a href="/">Back to the shop</a></p>', 404)
    try:
        await ousel.charges.cancel(found[0])
    except ChargeNotCancelable:  # it is paid by now, or was canceled before
        return redirect(request, f"/orders/{order_id}")
    carts.setdefault(visitor_of(request), []).extend(found[1].split(","))
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
    """Exchange the code that a person came back with."""
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
    """Pay the supplier, once for each form that was shown, however often it is sent."""
    form = parse_qs((await request.body()).decode())
    key = form["key"][0]
    try:
        transfer = await ousel.transfers.send(
            to=SUPPLIER, amount=SUPPLIES, note="This month's books", idempotency_key=key
        )
    except OuselError as error:
        return page(request, "The supplier is not paid", f"<p>{escape(str(error))}</p>", 502)
    return page(
        request,
        "The supplier is paid",
        f"<p>Transfer {transfer.id}; the shop has {transfer.balance_after:.2f} OUSD left.</p>"
        '<p><a href="/">Back to the shop</a></p>',
    )


async def greeting(visitor: str) -> str:
    """Greet a person by name, if their account is connected."""
    token = tokens.get(visitor)
    invitation = '<p><a href="/connect">Connect with Ousel</a></p>'
    if token is None:
        return invitation
    try:
        user = ousel.user(token.access_token)
        person, balance = await user.me(), await user.balance()
    except OuselError:
        del tokens[visitor]
        return invitation
    return f"<p>Hello, {escape(person.display_name)}. You have {balance.available:.2f} OUSD.</p>"


def visitor_of(request: Request) -> str:
    """Return the random name of this browser."""
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
    return remembered(request, HTMLResponse(html, status))


def redirect(request: Request, target: str) -> Response:
    """Send the browser on."""
    return remembered(request, RedirectResponse(target, 303))


def remembered(request: Request, response: Response) -> Response:
    """Let the browser keep its name."""
    response.set_cookie("visitor", visitor_of(request), httponly=True, samesite="lax")
    return response


shop = Starlette(
    routes=[
        Route("/", catalogue),
        Route("/cart/{slug}", add_to_cart, methods=["POST"]),
        Route("/pay", pay, methods=["POST"]),
        Route("/orders/{order_id}", order),
        Route("/orders/{order_id}/canceled", canceled),
        Route("/connect", connect),
        Route("/connected", connected),
        Route("/supplier", pay_supplier, methods=["POST"]),
    ]
)

if __name__ == "__main__":
    uvicorn.run(shop, host="127.0.0.1", port=int(SHOP_URL.rpartition(":")[2]), log_level="warning")
