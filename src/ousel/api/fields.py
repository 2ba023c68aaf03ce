"""Field types that requests and records share, with their descriptions for the reference."""

from typing import Annotated, Final, Literal

import msgspec

from ousel.kernel.money import json_from_micros

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
