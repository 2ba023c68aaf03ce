"""Decoding of answers: amounts are exact, times have zones, and new fields are ignored."""

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from clients.python.tests.scripts import charge_json
from ousel_client.decoding import Undecodable, decode_page, decode_record, parse_object
from ousel_client.records import Balance, Charge, Transfer

BALANCE = {
    "object": "balance",
    "account_id": "acct_1",
    "currency": "OUSD",
    "available": 12.5,
    "updated_at": "2026-01-31T12:00:00.000001Z",
}


def changed(**changes: Any) -> bytes:
    """Return the balance as JSON, with these fields changed."""
    return json.dumps(BALANCE | changes).encode()


def test_numbers_are_exact_and_times_have_a_zone() -> None:
    """An amount is the decimal that was written; a time is in UTC to the microsecond."""
    body = changed().replace(b"12.5", b"999999999.999999")

    balance = decode_record(Balance, body)

    assert balance.available == Decimal("999999999.999999")
    assert balance.updated_at == datetime(2026, 1, 31, 12, 0, 0, 1, tzinfo=UTC)


def test_a_whole_number_is_an_amount_too() -> None:
    """An amount may be written without decimals."""
    assert decode_record(Balance, changed(available=7)).available == Decimal(7)


def test_new_fields_and_values_are_accepted() -> None:
    """A field or value that this client does not know is not an error."""
    assert decode_record(Balance, changed(reserved=1)).account_id == "acct_1"
    charge = charge_json(status="refunded")

    status: str = decode_record(Charge, json.dumps(charge).encode()).status
    assert status == "refunded"


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "not JSON"),
        (b"<html>", "not JSON"),
        (b"\xff", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b'{"amount": 1e%b}' % (b"9" * 30), "not JSON"),
        (b"[]", "not a JSON object"),
        (b"{}", "has no 'account_id'"),
        (changed(account_id=None), "expected str, but got NoneType"),
        (changed(available="12.5"), "expected int, but got str"),
        (changed(available=True), "expected int, but got bool"),
        (changed(updated_at=5), "expected str, but got int"),
        (changed(updated_at="yesterday"), "not in the format of RFC 3339"),
        (changed(updated_at="2026-01-31T12:00:00"), "no time zone"),
    ],
)
def test_other_bodies_are_not_records(body: bytes, why: str) -> None:
    """A body that does not have the documented form raises Undecodable, with the reason."""
    with pytest.raises(Undecodable, match=why):
        decode_record(Balance, body)


@pytest.mark.parametrize(
    "page",
    [
        {},
        {"data": None, "next_cursor": None},
        {"data": [], "has_more": False},
        {"data": [{}], "next_cursor": None},
        {"data": [5], "next_cursor": None},
        {"data": [], "next_cursor": {"a": 1}},
    ],
)
def test_other_bodies_are_not_pages(page: dict[str, Any]) -> None:
    """A body that is not a page raises Undecodable; it never looks like an empty page."""
    with pytest.raises(Undecodable):
        decode_page(Transfer, json.dumps(page).encode())


def test_integers_stay_integers() -> None:
    """Only a number that is written with decimals becomes a Decimal."""
    assert parse_object(b'{"a": 1, "b": 1.0}') == {"a": 1, "b": Decimal("1.0")}
