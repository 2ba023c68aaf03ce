"""Field types that requests and records share, with their descriptions for the reference."""

from typing import Annotated, Final, Literal

import msgspec

from ousel.kernel.errors import InvalidField
from ousel.kernel.money import json_from_micros

KEY_CHARACTERS_MAX: Final = 255
KEY_SCHEMA: Final = {
    "type": "string",
    "minLength": 1,
    "maxLength": KEY_CHARACTERS_MAX,
    "pattern": "^[!-~]+$",
}
TEXT_PATTERN: Final = "^[^\\u0000-\\u0008\\u000b-\\u001f\\u007f]*$"

# The code generator for Go would otherwise declare an amount as float32, which has 7 digits.
_EXACT_IN_GO: Final = {
    "x-go-type": "exact.Number",
    "x-go-type-import": {"name": "exact", "path": "encoding/json"},
}

Amount = Annotated[
    msgspec.Raw,
    msgspec.Meta(
        extra_json_schema={
            "type": "number",
            "minimum": 0.000001,
            "maximum": 999999999.999999,
            "description": "A JSON number with at most 6 decimals; never a string.",
            "examples": [25.00],
            **_EXACT_IN_GO,
        }
    ),
]
Money = Annotated[
    msgspec.Raw,
    msgspec.Meta(
        extra_json_schema={
            "type": "number",
            "description": "A JSON number with 2 to 6 decimals.",
            "examples": [25.00],
            **_EXACT_IN_GO,
        }
    ),
]
Time = Annotated[
    str,
    msgspec.Meta(
        extra_json_schema={"format": "date-time", "examples": ["2026-01-31T12:00:00.000000Z"]},
        description="RFC 3339, UTC, with microseconds.",
    ),
]
Currency = Literal["OUSD"]


def money_field(micros: int) -> msgspec.Raw:
    """Return an amount as the JSON number that answers contain."""
    return msgspec.Raw(json_from_micros(micros))


def parse_idempotency_key(header: bytes | None, field: str | None) -> str | None:
    """Return the idempotency key of a request, from its header or its body."""
    if header is None:
        return _check_key(field)
    key = header.decode("latin-1")
    if field is not None and field != key:
        raise InvalidField(
            "The header Idempotency-Key and the field idempotency_key differ; send one of them.",
            param="idempotency_key",
        )
    return _check_key(key)


def _check_key(key: str | None) -> str | None:
    if key is None or (0 < len(key) <= KEY_CHARACTERS_MAX and key.isascii() and _is_visible(key)):
        return key
    raise InvalidField(
        f"The idempotency key must be 1 to {KEY_CHARACTERS_MAX} visible ASCII characters.",
        param="idempotency_key",
    )


def _is_visible(key: str) -> bool:
    return key.isprintable() and " " not in key
