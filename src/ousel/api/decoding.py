"""Decoding of bodies, forms and queries into typed requests, with a clear refusal if invalid."""

import json
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final, Literal, TypeVar, get_args, get_origin
from urllib.parse import parse_qsl

import msgspec

from ousel.api.fields import Amount
from ousel.api.refusals import MalformedJson, MissingField, UnknownField, UnknownParameter
from ousel.http.messages import Headers
from ousel.http.refusals import UnsupportedMediaType
from ousel.kernel.errors import InvalidField, Refusal
from ousel.kernel.money import micros_from_json
from ousel.kernel.nesting import is_nested_deeper

QUERY_PARAMETERS_MAX: Final = 50
NAME_CHARACTERS_SHOWN: Final = 100
NESTED_LEVELS_MAX: Final = 100  # the body itself is the first

_INTEGER: Final = re.compile(r"-?(0|[1-9][0-9]{0,17})", re.ASCII)
_FIELD_IN_ERROR: Final = re.compile(r"`\$\.(\w+)")
_LITERALS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])

Typed = TypeVar("Typed", bound=msgspec.Struct)


def decode_body(body: bytes, headers: Headers, request_type: type[Typed]) -> Typed:
    """Return the body as the endpoint's request type, or refuse it and say why."""
    content_type = headers.get(b"content-type", b"")
    if content_type != b"application/json":
        _check_content_type(content_type)
    if content_encoding := headers.get(b"content-encoding"):
        _check_content_encoding(content_encoding)
    if len(body) > NESTED_LEVELS_MAX and is_nested_deeper(body, NESTED_LEVELS_MAX):
        raise MalformedJson(f"The body must be nested at most {NESTED_LEVELS_MAX} levels deep.")
    try:
        return _decoder(request_type).decode(body)  # type: ignore[no-any-return]
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _body_refusal(body, request_type, error) from error


def is_form(headers: Headers) -> bool:
    """Return whether the Content-Type says that the body is a form."""
    media_type = headers.get(b"content-type", b"").partition(b";")[0]
    return media_type.strip().lower() == b"application/x-www-form-urlencoded"


def decode_form(body: bytes, request_type: type[Typed]) -> Typed:
    """Return the form as the endpoint's request type, or refuse it and say why."""
    return _decode_pairs(body, request_type, UnknownField, "The form is not valid.")


def decode_query(query_string: bytes, request_type: type[Typed]) -> Typed:
    """Return the query as the endpoint's parameter type, or refuse it and say why."""
    return _decode_pairs(
        query_string, request_type, UnknownParameter, "The query string is not valid."
    )


def _decode_pairs(
    text: bytes,
    request_type: type[Typed],
    unknown: type[UnknownField | UnknownParameter],
    unreadable_detail: str,
) -> Typed:
    try:
        pairs = _split_pairs(text.decode("ascii"))
    except ValueError as error:
        param = "query" if unknown is UnknownParameter else "body"
        raise InvalidField(unreadable_detail, param=param) from error
    integers = _integer_names(request_type)
    values = {name: _integer(value) if name in integers else value for name, value in pairs}
    if len(values) != len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for name in names if names.count(name) > 1)[:NAME_CHARACTERS_SHOWN]
        raise InvalidField(f"{repeated} may be given only once.", param=repeated)
    try:
        return msgspec.convert(values, request_type)
    except msgspec.ValidationError as error:
        refusal = _first_refusal(values, request_type, unknown, msgspec.convert)
        assert refusal is not None, "some value caused the conversion to fail"
        raise refusal from error


def _split_pairs(text: str) -> list[tuple[str, str]]:
    """Return names and values; a text without escapes needs no slow parser."""
    if "%" in text or "+" in text or text.count("&") >= QUERY_PARAMETERS_MAX:
        return parse_qsl(
            text, keep_blank_values=True, errors="strict", max_num_fields=QUERY_PARAMETERS_MAX
        )
    parts = [part.partition("=") for part in text.split("&") if part]
    return [(name, value) for name, _, value in parts]


def _check_content_type(content_type: bytes) -> None:
    media_type, _, parameters = content_type.lower().partition(b";")
    charset = parameters.strip().replace(b'"', b"").replace(b" ", b"")
    if media_type.strip() != b"application/json" or charset not in {b"", b"charset=utf-8"}:
        raise UnsupportedMediaType("The body must be sent as Content-Type: application/json.")


def _check_content_encoding(content_encoding: bytes) -> None:
    if content_encoding.strip().lower() != b"identity":
        raise UnsupportedMediaType(
            "The body must be sent uncompressed, without a Content-Encoding."
        )


@lru_cache(maxsize=64)
def _decoder(request_type: type[Typed]) -> msgspec.json.Decoder[Typed]:
    return msgspec.json.Decoder(request_type)


@lru_cache(maxsize=64)
def _integer_names(request_type: type[msgspec.Struct]) -> frozenset[str]:
    """Return the names of the parameters that are integers."""
    types = {
        field.encode_name: msgspec.inspect.type_info(field.type)
        for field in msgspec.structs.fields(request_type)
    }
    plain_types = {
        name: each.type if isinstance(each, msgspec.inspect.Metadata) else each
        for name, each in types.items()
    }
    return frozenset(
        name for name, each in plain_types.items() if isinstance(each, msgspec.inspect.IntType)
    )


def _integer(value: str) -> str | int:
    """Return the integer that a text stands for, or the text itself if it is not an integer."""
    return int(value) if _INTEGER.fullmatch(value) else value


class _NotANumber:
    """NaN or Infinity in a body: Python's parser accepts them, although JSON has neither."""

    def __init__(self, literal: str) -> None:
        self.literal = literal


def _body_refusal(body: bytes, request_type: type[msgspec.Struct], error: Exception) -> Refusal:
    """Return the refusal for a body that cannot be decoded."""
    try:
        literals = _LITERALS.decode(body)
    except msgspec.ValidationError:
        return MalformedJson("The body must be a JSON object.")
    except (msgspec.DecodeError, UnicodeDecodeError):
        _check_numbers(body, request_type)
        return MalformedJson("The body must be JSON in UTF-8.")
    refusal = _first_refusal(literals, request_type, UnknownField, _decode_literal)
    if refusal is not None:
        return refusal
    repeated = _FIELD_IN_ERROR.search(str(error))  # its last value is valid, but not an earlier one
    return MalformedJson(
        "A field occurs more than once in the body.", param=repeated and repeated[1]
    )


def _check_numbers(body: bytes, request_type: type[msgspec.Struct]) -> None:
    """Refuse an amount that is NaN or Infinity, and name its field."""
    try:
        values = json.loads(body, parse_constant=_NotANumber, parse_int=str)
    except ValueError:
        return
    for field in msgspec.structs.fields(request_type):
        value = values.get(field.encode_name) if isinstance(values, dict) else None
        if isinstance(value, _NotANumber) and field.type == Amount:
            micros_from_json(value.literal.encode(), param=field.encode_name)


def _decode_literal(literal: msgspec.Raw, field_type: Any) -> Any:
    return msgspec.json.decode(literal, type=field_type)


def _first_refusal(
    values: Mapping[str, Any],
    request_type: type[msgspec.Struct],
    unknown: type[UnknownField | UnknownParameter],
    convert: Callable[[Any, Any], Any],
) -> Refusal | None:
    """Return the refusal of the first invalid value, or None if all are valid."""
    fields = {field.encode_name: field for field in msgspec.structs.fields(request_type)}
    for name in values:
        if name not in fields and request_type.__struct_config__.forbid_unknown_fields:
            known = ", ".join(fields) or "none"
            shown = name[:NAME_CHARACTERS_SHOWN]
            return unknown(f"{shown} is unknown; the allowed names are: {known}.", param=shown)
    for name, field in fields.items():
        if name not in values:
            if field.required:
                return MissingField(f"{name} is required.", param=name)
            continue
        try:
            convert(values[name], field.type)
        except msgspec.ValidationError as error:
            words = ", ".join(_words(field.type))
            reason = f"the allowed values are: {words}" if words else str(error)
            return InvalidField(f"{name} is not valid: {reason}.", param=name)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return MalformedJson("The body must be JSON in UTF-8.")
    return None


def _words(field_type: Any) -> list[str]:
    """Return the words that a field of this type may have, or nothing if it may have others."""
    parts = get_args(field_type)
    if get_origin(field_type) is Literal:
        return list(parts)
    return [word for part in parts for word in _words(part)]
