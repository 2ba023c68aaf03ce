"""From JSON to records. A field that is not known here is passed over: the interface may grow."""

import json
from collections.abc import Callable, Hashable
from dataclasses import fields, is_dataclass
from datetime import datetime
from decimal import Decimal
from functools import lru_cache
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, cast, get_args, get_origin, get_type_hints

from ousel_client.records import Page

Record = TypeVar("Record")
Decode = Callable[[Any], Any]


class Undecodable(Exception):
    """An answer is not what the interface says."""


def parsed(body: bytes) -> dict[str, Any]:
    """Return the JSON object in the body, its numbers exact."""
    try:
        value = json.loads(body, parse_float=Decimal)
    except (ValueError, RecursionError) as error:
        raise Undecodable("the body is not JSON") from error
    if not isinstance(value, dict):
        raise Undecodable("the body is not a JSON object")
    return value


def record_of(kind: type[Record], body: bytes) -> Record:
    """Return the record in the body."""
    record: Record = _decoder(cast("Hashable", kind))(parsed(body))
    return record


def page_of(kind: type[Record], body: bytes) -> Page[Record]:
    """Return the page of records in the body."""
    value = parsed(body)
    decode = _decoder(cast("Hashable", kind))
    try:
        return Page(
            data=[decode(each) for each in value["data"]],
            next_cursor=value["next_cursor"],
        )
    except (KeyError, TypeError) as error:
        raise Undecodable("the body is not a page of a list") from error


@lru_cache(maxsize=64)
def _decoder(kind: Any) -> Decode:
    """Return how a JSON value becomes one of this kind."""
    if is_dataclass(kind):
        return _record_decoder(cast("type[Any]", kind))
    if get_origin(kind) is UnionType:
        present = next(each for each in get_args(kind) if each is not NoneType)
        decode = _decoder(present)
        return lambda value: None if value is None else decode(value)
    if get_origin(kind) is Literal:  # a value that is new to this client is no reason to fail
        return _decoder(str)
    return {Decimal: _decimal, datetime: _moment}.get(kind, _exactly(kind))


def _record_decoder(kind: type[Any]) -> Decode:
    hints = get_type_hints(kind)
    decoders = [
        (each.name, each.metadata.get("name", each.name), _decoder(hints[each.name]))
        for each in fields(kind)
    ]

    def decode(value: Any) -> Any:
        if not isinstance(value, dict):
            raise Undecodable(f"{kind.__name__} is not an object")
        try:
            return kind(**{own: decode(value[name]) for own, name, decode in decoders})
        except KeyError as error:
            raise Undecodable(f"{kind.__name__} has no {error}") from error

    return decode


def _exactly(kind: type[Any]) -> Decode:
    def decode(value: Any) -> Any:
        if type(value) is not kind:
            raise Undecodable(f"{type(value).__name__} stands where {kind.__name__} should")
        return value

    return decode


def _decimal(value: Any) -> Decimal:
    return value if isinstance(value, Decimal) else Decimal(_exactly(int)(value))


def _moment(value: Any) -> datetime:
    try:
        moment = datetime.fromisoformat(_exactly(str)(value))
    except ValueError as error:
        raise Undecodable("a time is not in RFC 3339") from error
    if moment.tzinfo is None:
        raise Undecodable("a time has no zone")
    return moment
