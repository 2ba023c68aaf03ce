"""A collection of all calls, in the format of Postman, which other tools can import too."""

from typing import Any, Final

import msgspec

from ousel.api.route import Access
from ousel.docs.operations import Field, Operation

SCHEMA: Final = "https://schema.getpostman.com/json/collection/v2.1.0/collection.json"
# The partner fills these in. The file contains no secret, because files are passed on.
VARIABLES: Final = {
    "key": "A partner key.",
    "client_id": "The client id of your app, for the calls of OAuth.",
    "user_token": "A user token, for the calls about a person who connected.",
}
_AUTHENTICATION: Final[dict[Access, tuple[str, dict[str, str]]]] = {
    "public": ("noauth", {}),
    "client": ("basic", {"username": "{{client_id}}", "password": "{{key}}"}),
    "partner": ("bearer", {"token": "{{key}}"}),
    "user": ("bearer", {"token": "{{user_token}}"}),
}

Item = dict[str, Any]


def postman_collection(operations: list[Operation]) -> Item:
    """Return a Postman collection (format 2.1.0) with one request for each operation."""
    base_url = operations[0].call.base_url
    return {
        "info": {
            "name": "Ousel",
            "description": "Set the variable `key` to one of your partner keys.",
            "schema": SCHEMA,
        },
        "variable": [
            {"key": "base_url", "value": base_url, "type": "string"},
            *(
                {"key": name, "value": "", "type": "string", "description": meaning}
                for name, meaning in VARIABLES.items()
            ),
        ],
        "item": [{"name": each.summary, "request": _request(each)} for each in operations],
    }


def _request(operation: Operation) -> Item:
    call = operation.call
    request: Item = {
        "method": operation.method,
        "description": operation.description,
        "header": [
            _parameter(field, call.headers.get(field.name))
            for field in operation.parameters
            if field.place == "header"
        ],
        "url": _url(operation),
        "auth": _auth(call.access),  # for each request, because not every tool inherits it
    }
    if call.body:
        request["header"].append({"key": "Content-Type", "value": "application/json"})
        raw = msgspec.json.format(call.body, indent=2)
        request["body"] = {"mode": "raw", "raw": raw, "options": {"raw": {"language": "json"}}}
    return request


def _url(operation: Operation) -> Item:
    segments = [
        f":{segment[1:-1]}" if segment.startswith("{") else segment
        for segment in operation.path.removeprefix("/").split("/")
    ]
    values = operation.call.path_values
    return {
        "raw": "/".join(["{{base_url}}", *segments]),
        "host": ["{{base_url}}"],
        "path": segments,
        "query": [_parameter(field) for field in operation.parameters if field.place == "query"],
        "variable": [
            _parameter(field, values[field.name])
            for field in operation.parameters
            if field.place == "path"
        ],
    }


def _parameter(field: Field, value: str | None = None) -> Item:
    """Return a parameter; one without an example is turned off."""
    parameter: Item = {
        "key": field.name,
        "value": value or "",
        "description": field.description,
    }
    return parameter if value else parameter | {"disabled": True}


def _auth(access: Access) -> Item:
    kind, values = _AUTHENTICATION[access]
    pairs = [{"key": name, "value": value, "type": "string"} for name, value in values.items()]
    return {"type": kind, kind: pairs}
