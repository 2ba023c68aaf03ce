"""The API reference: the OpenAPI document, and pages generated from it."""

import hashlib
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Final

import msgspec

from ousel.api.openapi import refusals_of
from ousel.api.route import Call, NoBody, NoQuery, Route
from ousel.docs.client_examples import PYTHON_EXAMPLES
from ousel.http.messages import Answer
from ousel.http.refusals import NotFound
from ousel.kernel.errors import all_refusals
from ousel.site.rendering import PageRenderer
from ousel.site.visits import PageRoute, Visit

_REFERENCE: Final = "#/components/schemas/"


class Field(msgspec.Struct, frozen=True):
    """A field or parameter, as the reference shows it."""

    name: str
    kind: str
    required: bool
    description: str


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """One endpoint, as the reference shows it."""

    name: str
    method: str
    path: str
    summary: str
    description: str
    parameters: list[Field]
    body: list[Field]
    answers: dict[str, str]
    record: list[Field]
    refusals: list[Any]
    example: str
    example_in_python: str


class ApiReference:
    """Serves the OpenAPI document and the pages about endpoints and errors."""

    def __init__(
        self,
        find_document: Callable[[], dict[str, Any]],
        routes: Sequence[Route],
        pages: PageRenderer,
    ) -> None:
        """Serve the reference of these routes; `find_document` returns their OpenAPI document."""
        self._find_document = find_document
        self._routes = routes
        self._pages = pages

    @cached_property
    def operations(self) -> list[Operation]:
        """The endpoints in the order of the OpenAPI document."""
        return _operations(self._find_document(), self._routes)

    @cached_property
    def _json(self) -> bytes:
        return msgspec.json.encode(self._find_document())

    @cached_property
    def _tag(self) -> bytes:
        return f'"{hashlib.sha256(self._json).hexdigest()[:32]}"'.encode()

    def routes(self, base: str) -> list[Route]:
        """Return the route of the OpenAPI document."""
        return [
            Route(
                method="GET",
                path=f"{base}/openapi.json",
                endpoint=self.openapi,
                name="openapi",
                summary="The OpenAPI document",
                access="public",
                in_reference=False,
            ),
        ]

    def page_routes(self) -> list[PageRoute]:
        """Return the routes of the pages."""
        return [
            PageRoute(method="GET", path="/docs/api", answer=self.endpoints, for_everyone=True),
            PageRoute(
                method="GET", path="/docs/api/{name}", answer=self.endpoint, for_everyone=True
            ),
            PageRoute(method="GET", path="/docs/errors", answer=self.errors, for_everyone=True),
        ]

    async def openapi(self, call: Call[NoBody, NoQuery]) -> Answer:
        """Return the OpenAPI document, or 304 if the caller has it already."""
        headers = ((b"etag", self._tag), (b"cache-control", b"no-cache"))
        if call.headers.get(b"if-none-match") == self._tag:
            return Answer(304, b"", headers=headers)
        return Answer(200, self._json, headers=headers)

    async def endpoints(self, visit: Visit) -> Answer:
        """List every endpoint, with a link to its page."""
        return self._pages.render("docs/reference.html", visit, operations=self.operations)

    async def endpoint(self, visit: Visit) -> Answer:
        """Show one endpoint: examples, fields, answers and errors."""
        for operation in self.operations:
            if operation.name == visit.path["name"]:
                return self._pages.render("docs/endpoint.html", visit, operation=operation)
        raise NotFound("There is no such endpoint.")

    async def errors(self, visit: Visit) -> Answer:
        """Show every error code with its cause and cure."""
        refusals = sorted(all_refusals(), key=lambda refusal: (refusal.status, refusal.code))
        return self._pages.render("docs/errors.html", visit, refusals=refusals)


def _operations(document: dict[str, Any], routes: Sequence[Route]) -> list[Operation]:
    by_name = {route.name: route for route in routes}
    schemas = document["components"]["schemas"]
    base_url = document["servers"][0]["url"]
    return [
        _operation(by_name[operation["operationId"]], f"{base_url}{path}", path, operation, schemas)
        for path, operations in document["paths"].items()
        for operation in operations.values()
    ]


def _operation(
    route: Route, url: str, path: str, operation: dict[str, Any], schemas: dict[str, Any]
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
        path=path,
        summary=operation["summary"],
        description=operation["description"],
        parameters=[
            Field(
                each["name"],
                _kind(each["schema"], schemas),
                each["required"],
                each.get("description")
                or each["schema"].get("description", f"In the {each['in']}."),
            )
            for each in operation.get("parameters", [])
        ],
        body=_fields(body, schemas),
        answers={
            status: answer["description"] for status, answer in responses.items() if status < "400"
        },
        record=_fields(record, schemas),
        refusals=refusals_of(route),
        example=_example(route, url, body, schemas),
        example_in_python=PYTHON_EXAMPLES[route.name],
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


def _example(route: Route, url: str, body: dict[str, Any], schemas: dict[str, Any]) -> str:
    """Return a curl command with example values."""
    example = {"identifier": "%40ada", "id": "tr_…" if "/transfers/" in url else "ch_…"}
    for name in route.path_parameters:
        url = url.replace(f"{{{name}}}", example.get(name, "…"))
    lines = [f"curl {url}"]
    if route.access == "client":
        lines.append('-u "$CLIENT_ID:$OUSEL_KEY"')
    elif route.access != "public":
        secret = "$OUSEL_KEY" if route.access == "partner" else "$USER_TOKEN"
        lines.append(f'-H "Authorization: Bearer {secret}"')
    fields = _resolve(body, schemas).get("properties", {})
    values = {name: field["examples"][0] for name, field in fields.items() if "examples" in field}
    if "Idempotency-Key" in route.request_headers:
        lines.append('-H "Idempotency-Key: order-2001"')
    if values:
        lines.append('-H "Content-Type: application/json"')
        lines.append(f"-d '{msgspec.json.encode(values).decode()}'")
    elif route.method == "POST":
        lines.insert(1, "-X POST")
    return " \\\n  ".join(lines)
