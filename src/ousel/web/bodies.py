"""Bodies and queries: read within limits, decoded into typed requests, explained when wrong."""

import json
from collections.abc import Awaitable, Callable, MutableMapping
from functools import lru_cache
from typing import Any, Final, TypeVar
from urllib.parse import parse_qsl

import msgspec

from ousel.kernel.errors import InvalidAmount, InvalidField, Refusal
from ousel.kernel.money import micros_from_json
from ousel.web.refusals import (
    BodyTooLarge,
    MalformedJson,
    MissingField,
    UnknownField,
    UnknownParameter,
    UnsupportedMediaType,
)
from ousel.web.routes import Headers

BODY_BYTES_MAX: Final = 64 * 1024
QUERY_PARAMETERS_MAX: Final = 50
NAME_CHARACTERS_SHOWN: Final = 100

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Typed = TypeVar("Typed", bound=msgspec.Struct)


async def read_body(headers: Headers, receive: Receive) -> bytes:
    """Return the whole body, or refuse one that is too large before it is read."""
    announced = headers.get(b"content-length", b"0")
    if announced.isdigit() and int(announced) > BODY_BYTES_MAX:
        raise _too_large()
    message = await receive()
    body: bytes = message.get("body", b"")
    while message.get("more_body", False):
        message = await receive()
        body += message.get("body", b"")
        if len(body) > BODY_BYTES_MAX:
            raise _too_large()
    return body


def decode_body(body: bytes, headers: Headers, kind: type[Typed]) -> Typed:
    """Return the body as the typed request that the endpoint takes, or say what is wrong."""
    content_type = headers.get(b"content-type", b"")
    if content_type != b"application/json":
        _check_content_type(content_type)
    try:
        return _decoder(kind).decode(body)  # type: ignore[no-any-return]
    except RecursionError as error:
        raise MalformedJson("The body is nested too deep.") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _explained_body(body, kind) from error


def decode_query(query_string: bytes, kind: type[Typed]) -> Typed:
    """Return the query as the typed parameters that the endpoint takes, or say what is wrong."""
    try:
        pairs = parse_qsl(
            query_string.decode("ascii"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=QUERY_PARAMETERS_MAX,
        )
    except ValueError as error:
        raise InvalidField("The query string is not valid.", param="query") from error
    values = dict(pairs)
    if len(values) != len(pairs):
        repeated = next(name for name, _ in pairs if [each for each, _ in pairs].count(name) > 1)
        raise InvalidField(f"{repeated} may be given once.", param=repeated)
    try:
        return msgspec.convert(values, kind, strict=False)
    except msgspec.ValidationError as error:
        raise _explained(values, kind, UnknownParameter, strict=False) from error


def _check_content_type(content_type: bytes) -> None:
    media_type, _, parameters = content_type.lower().partition(b";")
    charset = parameters.strip().replace(b'"', b"").replace(b" ", b"")
    if media_type.strip() != b"application/json" or charset not in {b"", b"charset=utf-8"}:
        raise UnsupportedMediaType("The body must be sent as Content-Type: application/json.")


def _too_large() -> BodyTooLarge:
    return BodyTooLarge(f"The body must be at most {BODY_BYTES_MAX} bytes.")


@lru_cache(maxsize=64)
def _decoder(kind: type[Typed]) -> msgspec.json.Decoder[Typed]:
    return msgspec.json.Decoder(kind)


class _NotJson:
    """Stands where a body has NaN or Infinity, which Python reads and JSON does not know."""

    def __init__(self, literal: str) -> None:
        self.literal = literal


def _explained_body(body: bytes, kind: type[msgspec.Struct]) -> Refusal:
    """Say which field of a body that cannot be decoded is at fault, and why."""
    try:
        values = json.loads(body, parse_constant=_NotJson, parse_int=str, parse_float=str)
    except RecursionError:
        return MalformedJson("The body is nested too deep.")
    except ValueError:
        return MalformedJson("The body must be JSON in UTF-8.")
    if not isinstance(values, dict):
        return MalformedJson("The body must be a JSON object.")
    for name, value in values.items():
        if isinstance(value, _NotJson):
            return _not_json(name, value)
    try:
        return _explained(msgspec.json.decode(body), kind, UnknownField, strict=True)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return MalformedJson("The body must be JSON in UTF-8.")


def _not_json(name: str, value: _NotJson) -> Refusal:
    try:
        micros_from_json(value.literal.encode(), param=name)
    except InvalidAmount as refusal:
        return refusal
    raise AssertionError("a constant that JSON does not know is never a number")


def _explained(
    values: dict[str, Any],
    kind: type[msgspec.Struct],
    unknown: type[UnknownField | UnknownParameter],
    *,
    strict: bool,
) -> Refusal:
    """Say which of the values is at fault, and why."""
    fields = {field.name: field for field in msgspec.structs.fields(kind)}
    for name in values:
        if name not in fields:
            known = ", ".join(fields) or "none"
            shown = name[:NAME_CHARACTERS_SHOWN]
            return unknown(f"{shown} is not known here; known are: {known}.", param=shown)
    for name, field in fields.items():
        if name not in values and field.required:
            return MissingField(f"{name} is required.", param=name)
        try:
            msgspec.convert(values.get(name, field.default), field.type, strict=strict)
        except msgspec.ValidationError as error:
            if name in values:
                return InvalidField(f"{name} is not valid: {error}.", param=name)
    raise AssertionError("a body that cannot be decoded has a field at fault")
