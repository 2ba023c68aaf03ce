"""What is recorded of a request and of its answer. Secrets and people's data are left out."""

import hashlib
from collections.abc import Sequence
from typing import Final
from urllib.parse import parse_qsl

import msgspec

from ousel.api.callers import Partner, User
from ousel.api.decoding import is_form
from ousel.api.route import Route
from ousel.http.messages import Answer, AnswerDropped, Request
from ousel.kernel.errors import InvalidAmount, Refusal
from ousel.kernel.money import micros_from_json
from ousel.lab.rules import CREATES, FINAL_STATUSES, RecordedCall

TEXT_CHARACTERS_MAX: Final = 200
EXCHANGE: Final = "createUserToken"

_KEY_FIELD: Final = "idempotency_key"
# A browser sends these headers by itself; a page cannot suppress them. Node.js also sends
# sec-fetch-mode, so that header says nothing.
_BROWSER_HEADERS: Final = (b"origin", b"sec-fetch-site")

_UNDECODABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

Fields = dict[str, msgspec.Raw]

_fields_decoder: Final = msgspec.json.Decoder(Fields)


class _RecordFields(msgspec.Struct, frozen=True):
    """The fields of a charge or of a transfer that grading needs."""

    id: str | None = None
    status: str | None = None
    charge_id: str | None = None  # the charge that a transfer has paid


class _AnswerFields(_RecordFields, frozen=True):
    """The fields of a record or of a list that grading needs."""

    data: list[_RecordFields] | None = None
    next_cursor: str | None = None
    has_more: bool = False


def record_request(
    route: Route, path: dict[str, str], request: Request, caller: Partner | User | None
) -> RecordedCall:
    """Return what is recorded when a request arrives; its number and time follow later."""
    query = dict(parse_qsl(request.query.decode("latin-1")))
    creates = route.name in CREATES
    fields = _fields_of(request) if creates else {}
    key = _idempotency_key(request, fields) if creates else query.get(_KEY_FIELD)
    return RecordedCall(
        sequence=0,
        operation=route.name,
        method=request.method,
        path=_path_of(route, path),
        arrived_at=0,
        credential=None if caller is None else caller.handle,
        key=None if key is None else _hash(key.encode("utf-8", "surrogatepass")),
        intent=_intent_of(fields) if creates else _question_of(path, query),
        amount=_text_of(fields.get("amount")),
        cursor=query.get("cursor", "")[:TEXT_CHARACTERS_MAX] or None,
        limit=query.get("limit", "")[:TEXT_CHARACTERS_MAX] or None,
        is_oldest_first=query.get("order") == "oldest",
        status_filter=query.get("status", "")[:TEXT_CHARACTERS_MAX] or None,
        from_browser=any(name in request.headers for name in _BROWSER_HEADERS),
        charge_id=path.get("id") if route.name == "getCharge" else None,
    )


def record_answer(
    call: RecordedCall, answer: Answer, created_charges: Sequence[str]
) -> RecordedCall:
    """Return the call with what its answer says, also about the charges created before."""
    try:
        fields = msgspec.json.decode(answer.body, type=_AnswerFields)
    except _UNDECODABLE:
        fields = _AnswerFields()
    is_charge = call.operation in ("createCharge", "getCharge")
    return msgspec.structs.replace(
        call,
        status=answer.status,
        code=answer.code,
        charge_id=fields.id if call.operation == "createCharge" else call.charge_id,
        charge_status=fields.status if is_charge else None,
        closed_charges=tuple({*created_charges} & _closed_charges(fields)),
        found_nothing=fields.data == [],
        next_cursor=fields.next_cursor,
        has_more=fields.has_more,
    )


def record_refusal(call: RecordedCall, refusal: Refusal) -> RecordedCall:
    """Return the call with what its refusal says."""
    members = refusal.members
    is_closed = members.get("charge_status") in FINAL_STATUSES
    return msgspec.structs.replace(
        call,
        status=refusal.status,
        code=refusal.code,
        retry_after=refusal.retry_after_seconds,
        closed_charges=(members["charge_id"],) if is_closed else (),
    )


def record_lost_answer(call: RecordedCall, dropped: AnswerDropped) -> RecordedCall:
    """Return a call whose answer was lost, with the code of its refusal if it was refused."""
    refusal = dropped.__cause__
    return (
        msgspec.structs.replace(call, code=refusal.code) if isinstance(refusal, Refusal) else call
    )


def code_in(request: Request) -> str | None:
    """Return the code that a request for a user token exchanges."""
    if is_form(request.headers):
        return dict(parse_qsl((request.body or b"").decode("latin-1"))).get("code")
    return _string(_fields_of(request).get("code"))


def _closed_charges(fields: _AnswerFields) -> set[str]:
    """Return the charges of which the answer says that they are paid, canceled or expired."""
    records = [fields, *(fields.data or [])]
    closed = {record.id for record in records if record.status in FINAL_STATUSES}
    paid = {record.charge_id for record in records}
    return {charge_id for charge_id in closed | paid if charge_id is not None}


def _fields_of(request: Request) -> Fields:
    """Return the fields of a JSON object; nothing if the body is something else."""
    try:
        return _fields_decoder.decode(request.body or b"")
    except _UNDECODABLE:
        return {}


def _idempotency_key(request: Request, fields: Fields) -> str | None:
    header = request.headers.get(b"idempotency-key")
    if header is not None:
        return header.decode("latin-1")
    return _string(fields.get(_KEY_FIELD))


def _intent_of(fields: Fields) -> str:
    """Return a hash of what is to be created, without the key.

    Ousel compares requests by value, so the order of fields and the way of writing are ignored.
    """
    wanted = [
        (name, _value_of(name, value))
        for name, value in sorted(fields.items())
        if name != _KEY_FIELD and bytes(value) != b"null"
    ]
    return _hash(repr(wanted).encode("utf-8", "backslashreplace"))


def _value_of(name: str, value: msgspec.Raw) -> int | str | bytes:
    """Return the amount or the text that is written; if it is neither, how it is written."""
    if name == "amount":
        try:
            return micros_from_json(bytes(value))
        except InvalidAmount:
            return bytes(value)
    text = _string(value)
    if text is None:
        return bytes(value)
    return text.lower() if name == "to" else text


def _question_of(path: dict[str, str], query: dict[str, str]) -> str:
    """Return a hash of what is asked for, such as a person's name, without the cursor."""
    filters = {name: value for name, value in query.items() if name not in ("cursor", _KEY_FIELD)}
    return _hash(repr((sorted(path.items()), sorted(filters.items()))).encode())


def _path_of(route: Route, path: dict[str, str]) -> str:
    """Return the path with the ids of charges and transfers, but without names of people."""
    return route.path.replace("{id}", path.get("id", "{id}")[:TEXT_CHARACTERS_MAX])


def _string(value: msgspec.Raw | None) -> str | None:
    """Return the text of a JSON string, or None if it is something else."""
    try:
        return None if value is None else msgspec.json.decode(value, type=str)
    except _UNDECODABLE:
        return None


def _text_of(value: msgspec.Raw | None) -> str | None:
    return None if value is None else bytes(value).decode("utf-8", "replace")[:TEXT_CHARACTERS_MAX]


def _hash(octets: bytes) -> str:
    return hashlib.sha256(octets).hexdigest()[:16]
