"""Charges: created, paid, canceled, expired, listed and waited for."""

import asyncio
import threading
import time
from decimal import Decimal
from typing import Any

import httpx2
import pytest

from clients.python.tests.client_kinds import ClientKind, all_of, client_of, result_of
from clients.python.tests.faults import FaultProxy
from clients.python.tests.scripts import charge_json
from ousel_client import Charge, Client, IdempotencyConflict, WaitTimedOut
from ousel_client.refusals import (
    AccountNotFound,
    ChargeNotCancelable,
    ChargeNotFound,
    ChargeNotPayable,
    InvalidAmount,
    InvalidField,
    NotFound,
)
from tests.support.seeded import SeededServer
from tests.support.waiting import assert_none_ends

RETURNS = {"success_url": "https://shop.example/ok", "cancel_url": "https://shop.example/no"}


async def test_a_charge_is_created_with_all_its_terms(tester: Any, sandbox: SeededServer) -> None:
    """The charge has its terms, a checkout page, and two hours to be paid."""
    charge = await result_of(
        tester.charges.create(amount="25.00", description="Tea", reference="order-7", **RETURNS)
    )

    assert isinstance(charge, Charge)
    assert (charge.amount, charge.description, charge.reference) == (Decimal(25), "Tea", "order-7")
    assert (charge.success_url, charge.cancel_url) == tuple(RETURNS.values())
    assert charge.checkout_url == f"{sandbox.server.origin}/pay/{charge.id}"
    assert (charge.status, charge.is_final) == ("created", False)
    assert (charge.expires_at - charge.created_at).total_seconds() == 7200
    assert await result_of(tester.charges.get(charge.id)) == charge


async def test_a_charge_is_paid(tester: Any) -> None:
    """A paid charge says who paid it, when, and by which transfer."""
    await result_of(tester.sandbox.fund(to="@ada", amount="50"))
    charge = await result_of(tester.charges.create(amount="12.5"))

    paid = await result_of(tester.sandbox.pay(charge.id, payer="@ada"))

    assert paid.status == "paid"
    assert paid.is_final
    assert paid.paid_by is not None
    assert paid.paid_by.username == "ada"
    assert paid.paid_at is not None
    newest = (await all_of(tester.transfers.list(kind="charge_payment")))[0]
    assert (newest.id, newest.charge_id) == (paid.transfer_id, charge.id)
    with pytest.raises(ChargeNotPayable):
        await result_of(tester.sandbox.pay(charge.id, payer="@ada"))


async def test_a_key_creates_one_charge(tester: Any, client_kind: ClientKind) -> None:
    """The same key and terms return the first charge; with other terms, the error contains it."""
    terms = {"amount": "3", "reference": "once", "idempotency_key": f"charge-{client_kind}"}
    first = await result_of(tester.charges.create(**terms))

    assert await result_of(tester.charges.create(**terms)) == first
    with pytest.raises(IdempotencyConflict) as raised:
        await result_of(tester.charges.create(**terms | {"amount": "4"}))
    assert raised.value.original == first
    assert raised.value.idempotency_key == f"charge-{client_kind}"


MISSING = {"id": "ch_1", "code": "charge_not_found", "detail": "There is none."}


def conflicting(original: dict[str, Any] | None) -> Client:
    """Return a client of a server that answers 409 to new charges, and has only this charge."""

    def answer(request: httpx2.Request) -> httpx2.Response:
        if request.method == "GET":
            return httpx2.Response(404 if original == MISSING else 200, json=original)
        told = {} if original is None else {"charge_id": original["id"]}
        return httpx2.Response(409, json={"code": "idempotency_conflict", **told})

    transport = httpx2.MockTransport(answer)
    return Client("sk_live_any", base_url="http://pay.example/v1", transport=transport)


def test_a_conflict_with_the_same_charge_is_success() -> None:
    """If the server answers 409 although the terms are the same, the original is returned."""
    original = charge_json(amount=3.5, reference="once")

    with conflicting(original) as client:
        assert client.charges.create(amount="3.50", reference="once").id == original["id"]
        with pytest.raises(IdempotencyConflict) as raised:
            client.charges.create(amount="3.50", reference="twice")
    assert isinstance(raised.value.original, Charge)


def test_a_conflict_with_another_charge_leaves_no_doubt() -> None:
    """The key belongs to the other charge, even if an earlier attempt got no answer."""
    answers = [httpx2.Response(503)]

    def answer(request: httpx2.Request) -> httpx2.Response:
        if request.method == "GET":
            return httpx2.Response(200, json=charge_json(reference="once"))
        conflict = {"code": "idempotency_conflict", "charge_id": "ch_1"}
        return answers.pop() if answers else httpx2.Response(409, json=conflict)

    transport = httpx2.MockTransport(answer)
    with (
        Client("sk_live_any", base_url="http://pay.example/v1", transport=transport) as client,
        pytest.raises(IdempotencyConflict) as raised,
    ):
        client.charges.create(amount=1, reference="twice")
    assert (raised.value.in_doubt, raised.value.attempts) == (False, 2)


def test_a_conflict_that_does_not_name_the_original_is_raised() -> None:
    """If the answer does not name the original, the client cannot compare the terms."""
    with conflicting(None) as client, pytest.raises(IdempotencyConflict) as raised:
        client.charges.create(amount="3.50")
    assert raised.value.original is None


def test_an_error_does_not_hide_a_conflict() -> None:
    """If the original cannot be read, the client still tells that the key was used."""
    with conflicting(MISSING) as client, pytest.raises(IdempotencyConflict) as raised:
        client.charges.create(amount="3.50")
    assert raised.value.original is None
    assert isinstance(raised.value.__cause__, ChargeNotFound)


async def test_a_refused_charge_tells_why(tester: Any) -> None:
    """The exception's class says what is wrong, and `param` names the field."""
    with pytest.raises(InvalidAmount) as raised:
        await result_of(tester.charges.create(amount=0))
    assert raised.value.param == "amount"
    assert raised.value.idempotency_key is not None
    with pytest.raises(InvalidField) as other:
        await result_of(tester.charges.create(amount=1, success_url="ftp://shop.example"))
    assert other.value.param == "success_url"


async def test_a_charge_is_canceled_once(tester: Any) -> None:
    """Only an open charge can be canceled; the error contains the charge's status."""
    charge = await result_of(tester.charges.create(amount=1))

    canceled = await result_of(tester.charges.cancel(charge.id))

    assert canceled.status == "canceled"
    assert canceled.canceled_at is not None
    with pytest.raises(ChargeNotCancelable) as raised:
        await result_of(tester.charges.cancel(charge.id))
    assert raised.value.members["charge_status"] == "canceled"


async def test_a_cancellation_whose_answer_was_lost_succeeds(sandbox: SeededServer) -> None:
    """The second attempt finds that the charge is canceled, and the call succeeds."""
    async with (
        FaultProxy(sandbox.server.port, seed=1, chance=0) as proxy,
        client_of("asyncio", sandbox.key, proxy.base_url) as client,
    ):
        charge = await client.charges.create(amount=1)
        proxy.planned = ["answer lost"]
        canceled = await client.charges.cancel(charge.id)

    assert (canceled.id, canceled.status) == (charge.id, "canceled")


async def test_missing_charges_and_accounts_are_not_found(tester: Any) -> None:
    """A missing charge and a missing account raise different exceptions."""
    with pytest.raises(ChargeNotFound):
        await result_of(tester.charges.get("ch_00000000000000000000000000"))
    charge = await result_of(tester.charges.create(amount=1))
    with pytest.raises(AccountNotFound):
        await result_of(tester.sandbox.pay(charge.id, payer="@nobody"))


async def test_a_list_is_filtered_and_has_pages(tester: Any, client_kind: ClientKind) -> None:
    """Charges are filtered by reference and status, and listed newest first, page by page."""
    reference = f"list-{client_kind}"
    created = [
        await result_of(tester.charges.create(amount=1, reference=reference)) for _ in range(5)
    ]
    await result_of(tester.charges.cancel(created[2].id))

    found = await all_of(tester.charges.list(reference=reference, page_size=2))
    canceled = await all_of(tester.charges.list(reference=reference, status="canceled"))

    assert [each.id for each in found] == [each.id for each in created[::-1]]
    assert [each.id for each in canceled] == [created[2].id]


async def test_advancing_the_clock_expires_a_charge(tester: Any) -> None:
    """When the sandbox's clock has advanced by two hours, the charge has expired."""
    charge = await result_of(tester.charges.create(amount=1))

    now = (await result_of(tester.sandbox.advance_clock(7200))).now
    expired = await result_of(tester.charges.wait(charge.id, 5))

    assert now >= charge.expires_at
    assert expired.status == "expired"


async def test_waiting_ends_with_the_payment(sandbox: SeededServer) -> None:
    """The server delays its answer until the charge is paid, and then sends it at once."""
    async with client_of("asyncio", sandbox.key, sandbox.base_url) as client:
        await client.sandbox.fund(to="@grace", amount="50")
        charge = await client.charges.create(amount=1)
        waiting = asyncio.create_task(client.charges.wait(charge.id, 30))
        await assert_none_ends(waiting, seconds=0.3)
        begun = time.monotonic()
        await client.sandbox.pay(charge.id, payer="@grace")
        paid = await waiting

    assert paid.status == "paid"
    assert time.monotonic() - begun < 25  # of the 30 that it would wait


def test_a_thread_waits_while_another_pays(sandbox: SeededServer) -> None:
    """Threads may share a client: one waits for a charge while another pays it."""
    with Client(sandbox.key, base_url=sandbox.base_url) as client:
        client.sandbox.fund(to="@alan", amount="50")
        charge = client.charges.create(amount=1)
        payer = threading.Timer(0.2, client.sandbox.pay, (charge.id,), {"payer": "@alan"})
        payer.start()
        paid = client.charges.wait(charge.id, 30)
        payer.join()

    assert paid.status == "paid"


async def test_waiting_ends_at_the_time_limit(tester: Any) -> None:
    """If the charge is still open at the time limit, WaitTimedOut contains it."""
    charge = await result_of(tester.charges.create(amount=1))

    with pytest.raises(WaitTimedOut) as raised:
        await result_of(tester.charges.wait(charge.id, 1))

    assert raised.value.charge == charge


async def test_a_live_server_has_no_sandbox(client: Any) -> None:
    """A live server does not have the calls of a sandbox."""
    with pytest.raises(NotFound):
        await result_of(client.sandbox.fund(to="@ada", amount=1))
    with pytest.raises(NotFound):
        await result_of(client.sandbox.advance_clock(1))
