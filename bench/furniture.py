"""What stands in a database beside its accounts: charges, user tokens, people signed in."""

import asyncio
import urllib.request
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import msgspec

from ousel.charges import store as charges
from ousel.charges.rules import ChargeTerms
from ousel.charges.transitions import new_charge
from ousel.database.addresses import database_at
from ousel.database.port import Transaction
from ousel.kernel.clock import MICROS_PER_SECOND, system_clock
from ousel.kernel.ids import handle_of, new_secret, secret_hash
from ousel.oauth import store as oauth
from ousel.oauth.rules import Token
from ousel.oauth.service import token_prefix
from ousel.partners.store import apps_of
from ousel.people import store as people
from ousel.people.rules import Session
from ousel.site.forms import form_token
from ousel.workload.plans import form
from ousel.workload.processes import Server
from ousel.workload.sample_data import Books

CHARGES: Final = 256
PAYERS: Final = 64
AMOUNT: Final = 10_000
DAY_MICROS: Final = 24 * 3600 * MICROS_PER_SECOND

Result = TypeVar("Result")


class Furniture(msgspec.Struct, frozen=True):
    """What loads ask for, beside transfers."""

    charges: list[str]  # of the first partner
    tokens: list[str]
    sessions: list[str]  # of other partners, who pay


def furnished(url: str, filled: Books) -> Furniture:
    """Put charges, tokens and sessions into a database."""

    async def furnish(transaction: Transaction) -> Furniture:
        [app] = await apps_of(transaction, filled.partners[0].id)
        tokens = [
            await _token(transaction, partner.id, filled.partners[0].id, app.id)
            for partner in filled.partners[1 : 1 + PAYERS]
        ]
        sessions = [
            await _session(transaction, partner.id) for partner in filled.partners[1 : 1 + PAYERS]
        ]
        return Furniture(await _charges(transaction, filled, app.id, CHARGES), tokens, sessions)

    return asyncio.run(_written(url, furnish))


def payments(url: str, filled: Books, furniture: Furniture, count: int) -> list[bytes]:
    """Create so many charges, and return the requests by which people pay them."""

    async def create(transaction: Transaction) -> list[str]:
        [app] = await apps_of(transaction, filled.partners[0].id)
        return await _charges(transaction, filled, app.id, count)

    created = asyncio.run(_written(url, create))
    requests = []
    for number, charge_id in enumerate(created):
        session = furniture.sessions[number % len(furniture.sessions)]
        body = f"form_token={form_token(session)}"
        requests.append(form(f"/pay/{charge_id}", f"ousel_session={session}", body))
    return requests


def tag_of(server: Server, key: str, charge_id: str) -> str:
    """Return the entity tag by which a client knows the state of a charge."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{server.port}/v1/charges/{charge_id}",
        headers={"Authorization": f"Bearer {key}"},
    )
    with urllib.request.urlopen(request) as answer:  # noqa: S310 - our own server
        return str(answer.headers["ETag"])


async def _written(url: str, work: Callable[[Transaction], Awaitable[Result]]) -> Result:
    database = database_at(url)
    await database.open()
    try:
        return await database.write(work)
    finally:
        await database.close()


async def _charges(transaction: Transaction, filled: Books, app_id: str, count: int) -> list[str]:
    terms = ChargeTerms(amount=AMOUNT, description="An order")
    created = [
        new_charge(filled.partners[0].id, app_id, terms, None, system_clock) for _ in range(count)
    ]
    await charges.add_charges(transaction, created)
    return [charge.id for charge in created]


async def _token(
    transaction: Transaction, account_id: str, app_account_id: str, app_id: str
) -> str:
    secret, now = new_secret(token_prefix("live")), system_clock()
    token = Token(
        account_id=account_id,
        handle=handle_of(secret),
        hash=secret_hash(secret),
        app_account_id=app_account_id,
        app_id=app_id,
        scope="profile balance",
        code_handle="",
        created_at=now,
        expires_at=now + DAY_MICROS,
        last_used_at=None,
    )
    await oauth.add_token(transaction, token)
    return secret


async def _session(transaction: Transaction, account_id: str) -> str:
    secret, now = new_secret("os_"), system_clock()
    session = Session(
        hash=secret_hash(secret),
        account_id=account_id,
        stage="signed_in",
        created_at=now,
        last_used_at=now,
        expires_at=now + DAY_MICROS,
        address="127.0.0.1",
        device="a load",
    )
    await people.add_session(transaction, session)
    return secret
