"""The operations of the OpenAPI document, as the reference shows them."""

from collections.abc import Sequence
from typing import Any, Final, Literal

import msgspec

from ousel.api.openapi import refusals_of
from ousel.api.route import Route
from ousel.docs.examples import ExampleCall, example_call

_REFERENCE: Final = "#/components/schemas/"
_PLACES: Final = {
    "path": "A part of the path.",
    "query": "Sent in the query string.",
    "header": "Sent as a header.",
}


class Field(msgspec.Struct, frozen=True):
    """A field or parameter, as the reference shows it."""

    name: str
    kind: str
    required: bool
    description: str
    place: Literal["path", "query", "header", "body"] = "body"

    @property
    def form_name(self) -> str:
        """The name of a parameter in the form that makes the call."""
        return f"{self.place}.{self.name}"


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """One endpoint, as the reference shows it."""

    name: str
    method: str
    base_path: str
    path: str  # below the base path
    summary: str
    description: str
    parameters: list[Field]
    body: list[Field]
    answers: dict[str, str]
    record: list[Field]
    refusals: list[Any]
    call: ExampleCall


def operations_of(document: dict[str, Any], routes: Sequence[Route]) -> list[Operation]:
    """Return the operations of an OpenAPI document, which was generated from these routes."""
    by_name = {route.name: route for route in routes}
    schemas = document["components"]["schemas"]
    base_url = document["servers"][0]["url"]
    return [
        _operation(by_name[operation["operationId"]], base_url, path, operation, schemas)
        for path, operations in document["paths"].items()
        for operation in operations.values()
    ]


def _operation(
    route: Route, base_url: str, path: str, operation: dict[str, Any], schemas: dict[str, Any]
) -> Operation:
    body: dict[str, Any] = {}
    for media in operation.get("requestBody", {}).get("content", {}).values():
        body = body or media["schema"]
    responses = operation["responses"]
    record: dict[str, Any] = {}
    for status in ("201", "200"):
        content = responses.get(status, {}).get("content", {}).get("application/json", {})
        record = record or content.get("schema", {})
    return Operation(
        name=route.name,
        method=route.method,
        base_path=route.path.removesuffix(path),
        path=path,
        summary=operation["summary"],
        description=operation["description"],
        parameters=[
            Field(
                each["name"],
                _kind(each["schema"], schemas),
                each["required"],
                each.get("description") or each["schema"].get("description", _PLACES[each["in"]]),
                each["in"],
            )
            for each in operation.get("parameters", [])
        ],
        body=_fields(body, schemas),
        answers={
            status: answer["description"] for status, answer in responses.items() if status < "400"
        },
        record=_fields(record, schemas),
        refusals=refusals_of(route),
        call=example_call(route, base_url, path, _resolve(body, schemas).get("properties", {})),
    )


def _resolve(schema: dict[str, Any], schemas: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in schema:
        schema = schemas[schema["$ref"].removeprefix(_REFERENCE)]
    return schema


def _fields(schema: dict[str, Any], schemas: dict[str, Any]) -> list[Field]:
    schema = _resolve(schema, schemas)
    required = schema.get("required", ())
    return [
        Field(
            name,
            _kind(field, schemas),
            name in required,
            field.get("description") or _resolve(field, schemas).get("description", ""),
        )
        for name, field in schema.get("properties", {}).items()
    ]


def _kind(schema: dict[str, Any], schemas: dict[str, Any]) -> str:
    """Return the type of a value in a few words."""
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_kind(each, schemas) for each in schema["anyOf"]))
    if "enum" in schema or "const" in schema:
        choices = schema.get("enum", [schema.get("const")])
        return " or ".join("null" if each is None else f'"{each}"' for each in choices)
    resolved = _resolve(schema, schemas)
    kind = resolved.get("type", "any")
    if kind == "array":
        return f"list of {_kind(resolved['items'], schemas)}"
    if "$ref" in schema:
        return str(resolved.get("title", "object")).removesuffix("Record").lower()
    if schema.get("format") == "date-time":
        kind = "time"
    return " or ".join(kind) if isinstance(kind, list) else str(kind)
