"""The idempotency key of a request, and the header of an answer to a repeated request."""

from typing import Final

from ousel.kernel.errors import InvalidField

KEY_CHARACTERS_MAX: Final = 255
KEY_SCHEMA: Final = {
    "type": "string",
    "minLength": 1,
    "maxLength": KEY_CHARACTERS_MAX,
    "pattern": "^[!-~]+$",
}
REPLAYED_HEADERS: Final = ((b"idempotent-replayed", b"true"),)


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
