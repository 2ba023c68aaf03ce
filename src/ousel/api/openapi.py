"""The OpenAPI 3.1 document, generated from the routes that serve the requests."""

from collections.abc import Iterable
from functools import cache
from typing import Any, Final

import msgspec

from ousel.api import refusals
from ousel.api.problems import Problem
from ousel.api.route import Access, AnswerDescription, NoBody, NoQuery, Route
from ousel.http import refusals as http_refusals
from ousel.kernel.errors import (
    DatabaseUnavailable,
    DeadlineExceeded,
    InvalidField,
    OutcomeUnknown,
    RateLimited,
    Refusal,
)
from ousel.kernel.settings import Settings

# The schema of a field that the document requires, but that is decoded as optional, so that the
# endpoint itself refuses a request without it.
REQUIRED: Final = {"x-required": True}

_REFERENCE_TEMPLATE: Final = "#/components/schemas/{name}"
_COMMON_REFUSALS: Final[tuple[type[Refusal], ...]] = (
    http_refusals.InternalError,
    DatabaseUnavailable,
)
_AUTHENTICATED_REFUSALS: Final = (
    refusals.OriginNotAllowed,
    RateLimited,
    refusals.UnknownParameter,
    InvalidField,
)
_REFUSALS_BY_ACCESS: Final[dict[Access, tuple[type[Refusal], ...]]] = {
    "public": (),
    "client": (),
    "partner": (refusals.Unauthorized, *_AUTHENTICATED_REFUSALS),
    "user": (refusals.InvalidToken, refusals.InsufficientScope, *_AUTHENTICATED_REFUSALS),
}
_WRITE_REFUSALS: Final = (OutcomeUnknown, DeadlineExceeded)
_EMPTY_BODY_REFUSALS: Final = (
    refusals.MalformedJson,
    refusals.UnknownField,
    http_refusals.BodyTooLarge,
    http_refusals.UnsupportedMediaType,
)
_BODY_REFUSALS: Final = (*_EMPTY_BODY_REFUSALS, refusals.MissingField, InvalidField)
_COMMON_HEADERS: Final[dict[str, Any]] = {
    "X-Request-Id": {
        "description": "Identifies this answer when you ask the operator about it.",
        "required": True,
        "schema": {"type": "string", "pattern": "^req_[0-9a-v]{26}$"},
    },
}
_RETRY_AFTER: Final[dict[str, Any]] = {
    "Retry-After": {
        "description": "Whole seconds to wait before you try again.",
        "required": False,
        "schema": {"type": "integer", "minimum": 1},
    },
}
_PREFERENCE_APPLIED: Final[dict[str, Any]] = {
    "Preference-Applied": {
        "description": "How long the answer was allowed to wait. Absent if it was not.",
        "required": False,
        "schema": {"type": "string", "pattern": "^wait=[0-9]+$"},
    },
}
_HEADERS_BY_STATUS: Final[dict[int, dict[str, Any]]] = {
    401: {
        "WWW-Authenticate": {
            "description": "The kind of credential that is needed.",
            "required": True,
            "schema": {"type": "string", "pattern": "^Bearer"},
        },
    },
    429: {"Retry-After": _RETRY_AFTER["Retry-After"] | {"required": True}},
    503: _RETRY_AFTER,
}


def openapi_document(routes: Iterable[Route], settings: Settings, version: str) -> dict[str, Any]:
    """Return the document that describes these routes."""
    documented = [route for route in routes if route.in_reference]
    types = list(dict.fromkeys(each for route in documented for each in _types(route)))
    references, components = _schemas_of(*types)
    components = {
        name: _with_required_fields(_without_null_defaults(each))
        for name, each in components.items()
    }
    schemas = dict(zip(types, references, strict=True))
    _require_all_fields_of_answers(documented, schemas, components)
    paths: dict[str, dict[str, Any]] = {}
    for route in documented:
        path = route.path.removeprefix(settings.base_path)
        paths.setdefault(path, {})[route.method.lower()] = _operation(route, schemas)
    document = {
        "openapi": "3.1.0",
        "info": {
            "title": "Ousel",
            "version": version,
            "summary": "Accounts, transfers and payments for partner applications.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": settings.base_url}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": _security_schemes(documented, settings),
        },
    }
    _add_types_of_enums(document)
    return document


def _security_schemes(routes: Iterable[Route], settings: Settings) -> dict[str, Any]:
    mode = settings.mode
    return {
        "clientSecret": {
            "type": "http",
            "scheme": "basic",
            "description": (
                "An app's client_id with one of its partner keys as the password; "
                "or send both as fields."
            ),
        },
        "partnerKey": {
            "type": "http",
            "scheme": "bearer",
            "description": f"A partner key, sk_{mode}_…, for servers only.",
        },
        "userToken": {
            "type": "oauth2",
            "description": f"A user token, ut_{mode}_…, sent as Authorization: Bearer.",
            "flows": {
                "authorizationCode": {
                    "authorizationUrl": f"{settings.portal_url}/connect",
                    "tokenUrl": f"{settings.base_url}/oauth/token",
                    "scopes": {route.scope: route.summary for route in routes if route.scope},
                }
            },
        },
    }


def refusals_of(route: Route) -> list[type[Refusal]]:
    """Return the refusals that the reference lists for a route, sorted by status and code."""
    possible = {*_COMMON_REFUSALS, *(_WRITE_REFUSALS if route.method == "POST" else ())}
    if route.refusal_format is None:  # otherwise, the route sends these in its own format
        possible |= {*route.refusals, *_REFUSALS_BY_ACCESS[route.access]}
        if route.method == "POST":
            possible |= {*(_EMPTY_BODY_REFUSALS if route.body is NoBody else _BODY_REFUSALS)}
    return sorted(possible, key=lambda refusal: (refusal.status, refusal.code))


@cache  # without the cache, most of the start-up time would be spent here
def _schemas_of(*types: Any) -> tuple[tuple[dict[str, Any], ...], dict[str, Any]]:
    """Return the references to the schemas of these types, and the schemas by name."""
    return msgspec.json.schema_components(types, ref_template=_REFERENCE_TEMPLATE)


def _types(route: Route) -> list[Any]:
    answers = (*route.successes.values(), *route.failures.values())
    types: list[Any] = [answer.record for answer in answers if answer.record is not None]
    if route.body is not NoBody:
        types.append(route.body)
    return [*types, Problem]


def _without_null_defaults(component: dict[str, Any]) -> dict[str, Any]:
    """Return the schema without null defaults, which code generators take for values."""
    properties = {
        name: {key: value for key, value in field.items() if (key, value) != ("default", None)}
        for name, field in component.get("properties", {}).items()
    }
    return component | {"properties": properties}


def _with_required_fields(component: dict[str, Any]) -> dict[str, Any]:
    """Return the schema in which the fields that are marked as required are so, and not null."""
    properties = component["properties"]
    marked = [name for name, field in properties.items() if field.pop("x-required", False)]
    stated = {name: _without_null(properties[name]) for name in marked}
    required = [*component.get("required", ()), *marked]
    return component | {"properties": properties | stated, "required": required}


def _add_types_of_enums(value: Any) -> None:
    """Add the type `string` to lists of allowed texts, because code generators expect it."""
    if isinstance(value, dict):
        choices = value.get("enum")
        if isinstance(choices, list) and all(isinstance(each, str) for each in choices):
            value["type"] = "string"
    for each in value.values() if isinstance(value, dict) else value:
        if isinstance(each, dict | list):
            _add_types_of_enums(each)


def _require_all_fields_of_answers(
    routes: Iterable[Route], schemas: dict[Any, Any], components: dict[str, Any]
) -> None:
    """Mark every field of every answer as required: fields with defaults are always sent."""
    records = {
        answer.record
        for route in routes
        for answer in (*route.successes.values(), *route.failures.values())
        if answer.record is not None
    }
    for name in _components_in([schemas[record] for record in records], components):
        components[name]["required"] = list(components[name]["properties"])


def _components_in(value: Any, components: dict[str, Any]) -> set[str]:
    """Return the names of the components that a schema refers to, also by way of others."""
    if isinstance(value, list):
        return set().union(*(_components_in(each, components) for each in value))
    if not isinstance(value, dict):
        return set()
    if "$ref" not in value:
        return _components_in(list(value.values()), components)
    name = value["$ref"].rpartition("/")[2]
    return {name} | _components_in(components[name], components)


def _operation(route: Route, schemas: dict[Any, Any]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": route.name,
        "summary": route.summary,
        "description": route.description or route.summary,
        "responses": _responses(route, schemas),
    }
    parameters = [*_path_parameters(route), *_query_parameters(route), *_header_parameters(route)]
    if parameters:
        operation["parameters"] = parameters
    if route.body is not NoBody:
        operation["requestBody"] = {
            "required": True,
            "content": {name: {"schema": schemas[route.body]} for name in _media_types(route)},
        }
    if route.access == "client":
        operation["security"] = [{"clientSecret": []}, {}]
    if route.access == "partner":
        operation["security"] = [{"partnerKey": []}]
    if route.access == "user":
        operation["security"] = [{"userToken": [route.scope]}]
    return operation


def _media_types(route: Route) -> list[str]:
    forms = ["application/x-www-form-urlencoded"] if route.takes_forms else []
    return ["application/json", *forms]


def _path_parameters(route: Route) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "description": description,
            "schema": {"type": "string", "minLength": 1},
        }
        for name, description in route.path_parameters.items()
    ]


def _query_parameters(route: Route) -> list[dict[str, Any]]:
    if route.query is NoQuery:
        return []
    components = _schemas_of(route.query)[1]
    properties = _without_null_defaults(components[route.query.__name__])["properties"]
    return [
        {"name": name, "in": "query", "required": False, "schema": _without_null(schema)}
        for name, schema in properties.items()
    ]


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema without null, such as of a query parameter, which cannot be null."""
    choices = [each for each in schema.pop("anyOf", []) if each != {"type": "null"}]
    if "enum" in schema:
        schema["enum"] = [each for each in schema["enum"] if each is not None]
    return schema | (choices[0] if choices else {})


def _header_parameters(route: Route) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "header", "required": False, "schema": schema}
        for name, schema in route.request_headers.items()
    ]


def _responses(route: Route, schemas: dict[Any, Any]) -> dict[str, Any]:
    responses = {
        str(status): _answer_response(answer, schemas)
        for status, answer in (route.successes | route.failures).items()
    }
    by_status: dict[int, list[type[Refusal]]] = {}
    for refusal in refusals_of(route):
        by_status.setdefault(refusal.status, []).append(refusal)
    for status, possible in by_status.items():
        responses[str(status)] = _refusal_response(status, possible, schemas)
    if "Prefer" in route.request_headers:
        waiting = [status for status, possible in by_status.items() if _may_end_soon(possible)]
        for status in (*route.successes, *waiting):
            response = responses[str(status)]
            response["headers"] = response.get("headers", {}) | _PREFERENCE_APPLIED
    for response in responses.values():
        response["headers"] = response.get("headers", {}) | _COMMON_HEADERS
    return responses


def _refusal_response(
    status: int, possible: list[type[Refusal]], schemas: dict[Any, Any]
) -> dict[str, Any]:
    headers = _RETRY_AFTER if _may_end_soon(possible) else {}
    return {
        "description": " ".join(f"{refusal.title} (`{refusal.code}`)." for refusal in possible),
        "content": {"application/problem+json": {"schema": schemas[Problem]}},
        "headers": headers | _HEADERS_BY_STATUS.get(status, {}),
    }


def _may_end_soon(possible: Iterable[type[Refusal]]) -> bool:
    return any(refusal.ends_soon for refusal in possible)


def _answer_response(answer: AnswerDescription, schemas: dict[Any, Any]) -> dict[str, Any]:
    response: dict[str, Any] = {"description": answer.meaning}
    if answer.record is not None:
        response["content"] = {"application/json": {"schema": schemas[answer.record]}}
    if answer.has_text_form:
        response["content"]["text/plain"] = {"schema": {"type": "string"}}
    if answer.headers:
        response["headers"] = {
            name: {"required": True, "schema": {"type": "string", "pattern": f"^{pattern}$"}}
            for name, pattern in answer.headers.items()
        }
    return response
