"""Strict reading of the JSON of a receipt, even if a program has reformatted it."""

import json
import re
from collections.abc import Mapping
from decimal import Decimal
from itertools import product
from typing import Any, Final, NoReturn

from ousel.kernel.money import DECIMAL_PLACES, json_from_micros
from ousel.kernel.nesting import is_nested_deeper
from ousel.sealed_log.receipts import ReceiptRefused

NESTED_LEVELS_MAX: Final = 5  # a receipt has three
VALUES_MAX: Final = 2_000  # a receipt has about a hundred

_AMOUNTS: Final = ("amount", "balance_after")
_AMOUNT: Final = re.compile(r"-?[0-9]{1,20}(\.[0-9]{1,6})?")
_SERVED_LAYOUT: Final[dict[str, Any]] = {"separators": (",", ":"), "ensure_ascii": False}
_OTHER_LAYOUTS: Final[tuple[dict[str, Any], ...]] = tuple(
    {"indent": indent, "ensure_ascii": is_ascii}
    for indent in (None, 2, 4, "\t")
    for is_ascii in (True, False)
)


def decode_receipt(content: bytes) -> dict[str, Any]:
    """Return the JSON object, with exact decimals; refuse repeated names and special numbers."""
    if is_nested_deeper(content, NESTED_LEVELS_MAX) or content.count(b",") > VALUES_MAX:
        raise ReceiptRefused("the receipt has more values or levels than a receipt can have")
    try:
        value = json.loads(
            content.decode(),
            parse_float=Decimal,
            parse_constant=_refuse_constant,
            object_pairs_hook=_object_without_repeated_names,
        )
    except (ValueError, ArithmeticError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise ReceiptRefused("the receipt is not a JSON object")
    return value


def as_served(content: bytes) -> bytes:
    """Return a receipt as the server wrote it, if a program has only reformatted it.

    Only the usual outputs of JSON encoders are recognized: on one line with spaces, or indented by
    two, four or a tab, with or without escapes, with amounts such as 25.00, 25.0, 25 or 1e-05. Any
    other change of a byte makes the signature wrong.
    """
    content = content.rstrip(b"\r\n")
    receipt = decode_receipt(content)
    transfer = receipt.get("transfer")
    if not isinstance(transfer, dict):
        return content
    texts = {name: str(transfer[name]) for name in _AMOUNTS if name in transfer}
    if not all(_AMOUNT.fullmatch(text) for text in texts.values()):
        return content
    # Some programs write 0.00001 as 1e-05; of these, some write 25.00 as 25.0, and some as 25.
    forms = [{text, repr(float(transfer[name]))} for name, text in texts.items()]
    served = {name: json_from_micros(micros_from_decimal(transfer[name])) for name in texts}
    try:
        if any(
            _dump(receipt, dict(zip(texts, written, strict=True)), layout) == content
            for written in product(*forms)
            for layout in _OTHER_LAYOUTS
        ):
            return _dump(receipt, served, _SERVED_LAYOUT)
    except (TypeError, UnicodeError):  # something that no receipt has, such as a lone surrogate
        pass
    return content


def micros_from_decimal(amount: Decimal | int) -> int:
    """Return an amount in millionths; a ValueError if it is not one that Ousel can write."""
    if not _AMOUNT.fullmatch(str(amount)):
        raise ValueError
    return int(Decimal(amount).scaleb(DECIMAL_PLACES))


def _refuse_constant(_: str) -> NoReturn:
    raise ValueError


def _object_without_repeated_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError
    return members


def _dump(receipt: dict[str, Any], amounts: Mapping[str, str], layout: dict[str, Any]) -> bytes:
    """Encode a receipt with its amounts written in this way."""
    marked = {name: f"\x00{name}\x00" for name in amounts}
    text = json.dumps(receipt | {"transfer": receipt["transfer"] | marked}, **layout)
    for name, amount in amounts.items():
        text = text.replace(f'"\\u0000{name}\\u0000"', amount)
    return text.encode()
