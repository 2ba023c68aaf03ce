"""Decoding JSON into records. Unknown fields are ignored, because the API may gain fields."""

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
    """The answer does not have the documented form."""


def parse_object(body: bytes) -> dict[str, Any]:
    """Return the JSON object in the body, with exact numbers."""
    try:
        value = json.loads(body, parse_float=Decimal)
    except (ValueError, ArithmeticError, RecursionError) as error:
        raise Undecodable("the body is not JSON") from error
    if not isinstance(value, dict):
        raise Undecodable("the body is not a JSON object")
    return value


def decode_record(kind: type[Record], body: bytes) -> Record:
    """Return the record in the body."""
    record: Record = _decoder(cast("Hashable", kind))(parse_object(body))
    return record


def decode_page(kind: type[Record], body: bytes) -> Page[Record]:
    """Return the page of records in the body."""
    value = parse_object(body)
    decode = _decoder(cast("Hashable", kind))
    try:
        page = Page(
            data=[decode(each) for each in value["data"]],
            next_cursor=value["next_cursor"],
        )
    except (KeyError, TypeError) as error:
        raise Undecodable("the body is not a page of a list") from error
    if not isinstance(page.next_cursor, str | None):
        raise Undecodable("the next_cursor is not a text")
    return page


@lru_cache(maxsize=64)
def _decoder(kind: Any) -> Decode:
    """Return the function that converts a JSON value to this type."""
    if is_dataclass(kind):
        return _record_decoder(cast("type[Any]", kind))
    if get_origin(kind) is UnionType:
        present = next(each for each in get_args(kind) if each is not NoneType)
        decode = _decoder(present)
        return lambda value: None if value is None else decode(value)
    if get_origin(kind) is list:
        return _list_decoder(*get_args(kind))
    if get_origin(kind) is Literal:  # accept values that are newer than this client
        return _decoder(str)
    return {Decimal: _decimal, datetime: _time}.get(kind, _exact_type_decoder(kind))


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


def _list_decoder(kind: Any) -> Decode:
    decode = _decoder(kind)
    return lambda value: [decode(each) for each in _exact_type_decoder(list)(value)]


def _exact_type_decoder(kind: type[Any]) -> Decode:
    def decode(value: Any) -> Any:
        if type(value) is not kind:
            raise Undecodable(f"expected {kind.__name__}, but got {type(value).__name__}")
        return value

    return decode


def _decimal(value: Any) -> Decimal:
    return value if isinstance(value, Decimal) else Decimal(_exact_type_decoder(int)(value))


def _time(value: Any) -> datetime:
    try:
        moment = datetime.fromisoformat(_exact_type_decoder(str)(value))
    except ValueError as error:
        raise Undecodable("a time is not in the format of RFC 3339") from error
    if moment.tzinfo is None:
        raise Undecodable("a time has no time zone")
    return moment
