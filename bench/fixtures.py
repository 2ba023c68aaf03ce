"""Charges, user tokens and sessions, which some cases need besides the sample data."""

import asyncio
import urllib.request
from functools import partial
from typing import Final

import msgspec

from ousel.charges import store as charges
from ousel.charges.rules import ChargeTerms
from ousel.charges.transitions import new_charge
from ousel.database.addresses import open_database
from ousel.database.port import Result, Transaction, Work
from ousel.kernel.clock import MICROS_PER_SECOND, system_clock
from ousel.kernel.ids import handle_of, new_secret, secret_hash
from ousel.ledger.journal import entries_after
from ousel.oauth import store as oauth
from ousel.oauth.rules import Token
from ousel.oauth.service import token_prefix
from ousel.partners.store import apps_of
from ousel.people import store as people
from ousel.people.rules import Session
from ousel.site.forms import form_token
from ousel.workload.plans import form_request
from ousel.workload.processes import Server
from ousel.workload.sample_data import SampleData

CHARGES: Final = 256
PAYERS: Final = 64
AMOUNT: Final = 10_000
DAY_MICROS: Final = 24 * 3600 * MICROS_PER_SECOND


class Fixtures(msgspec.Struct, frozen=True):
    """Ids and secrets for the loads."""

    app_id: str  # of the first partner, like the session and the charges
    owner_session: str
    charges: list[str]
    tokens: list[str]
    sessions: list[str]  # of other partners, who pay


def create_fixtures(url: str, data: SampleData) -> Fixtures:
    """Create charges, tokens and sessions in a database."""

    async def create(transaction: Transaction) -> Fixtures:
        [app] = await apps_of(transaction, data.partners[0].id)
        tokens = [
            await _create_token(transaction, partner.id, data.partners[0].id, app.id)
            for partner in data.partners[1 : 1 + PAYERS]
        ]
        sessions = [
            await _create_session(transaction, partner.id)
            for partner in data.partners[1 : 1 + PAYERS]
        ]
        return Fixtures(
            app_id=app.id,
            owner_session=await _create_session(transaction, data.partners[0].id),
            charges=await _create_charges(transaction, data, app.id, CHARGES),
            tokens=tokens,
            sessions=sessions,
        )

    return asyncio.run(_run(url, create))


def payment_requests(url: str, data: SampleData, fixtures: Fixtures, count: int) -> list[bytes]:
    """Create this many charges, and return the requests that pay them on the checkout page."""
    create = partial(_create_charges, data=data, app_id=fixtures.app_id, count=count)
    charge_ids = asyncio.run(_run(url, create))
    requests = []
    for number, charge_id in enumerate(charge_ids):
        session = fixtures.sessions[number % len(fixtures.sessions)]
        body = f"form_token={form_token(session)}"
        requests.append(form_request(f"/pay/{charge_id}", f"ousel_session={session}", body))
    return requests


def entity_tag(server: Server, key: str, charge_id: str) -> str:
    """Return the entity tag of a charge."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{server.port}/v1/charges/{charge_id}",
        headers={"Authorization": f"Bearer {key}"},
    )
    with urllib.request.urlopen(request) as answer:  # noqa: S310 - our own server
        return str(answer.headers["ETag"])


def receipts(url: str, server: Server, data: SampleData) -> list[tuple[str, dict[str, str]]]:
    """Return the path and headers of the receipt of each partner's first movement, once sealed."""

    async def find(transaction: Transaction) -> list[str]:
        found = [await entries_after(transaction, each.id, 0, limit=1) for each in data.partners]
        return [entry.transfer_id for [entry] in found]

    targets = [
        (f"/v1/transfers/{transfer_id}/receipt", {"Authorization": f"Bearer {key}"})
        for transfer_id, key in zip(asyncio.run(_run(url, find)), data.keys, strict=True)
    ]
    for path, headers in targets:
        request = urllib.request.Request(
            f"http://127.0.0.1:{server.port}{path}", headers=headers | {"Prefer": "wait=60"}
        )
        urllib.request.urlopen(request).close()  # noqa: S310 - our own server
    return targets


async def _run(url: str, work: Work[Result]) -> Result:
    async with open_database(url) as database:
        return await database.write(work)


async def _create_charges(
    transaction: Transaction, data: SampleData, app_id: str, count: int
) -> list[str]:
    terms = ChargeTerms(amount=AMOUNT, description="An order")
    new_charges = [
        new_charge(data.partners[0].id, app_id, terms, None, system_clock) for _ in range(count)
    ]
    await charges.add_charges(transaction, new_charges)
    return [charge.id for charge in new_charges]


async def _create_token(
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


async def _create_session(transaction: Transaction, account_id: str) -> str:
    secret, now = new_secret("os_"), system_clock()
    session = Session(
        hash=secret_hash(secret),
        account_id=account_id,
        stage="signed_in",
        created_at=now,
        last_used_at=now,
        expires_at=now + DAY_MICROS,
        ip_address="127.0.0.1",
        device="a load",
        identity_checked_at=now,
    )
    await people.add_session(transaction, session)
    return secret
