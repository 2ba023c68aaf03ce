"""Every route is in the OpenAPI document, or deliberately not; and the document is valid."""

import re
from typing import Any

import pytest
import schemathesis
from schemathesis.core.result import Err

from ousel.app import Ousel
from ousel.kernel.settings import Settings
from ousel.web.openapi import refusals_of
from ousel.web.routes import NoBody, Route
from ousel.web.visits import PageRoute

INTERFACE = {
    *("GET /me", "GET /balance", "GET /accounts/{identifier}", "POST /transfers"),
    *("GET /transfers", "POST /charges", "GET /charges/{id}", "GET /charges"),
    *("POST /charges/{id}/cancel", "POST /oauth/token", "GET /user/me", "GET /user/balance"),
}
BEYOND_THE_INTERFACE = {"POST /oauth/revoke"}
SANDBOX = {"POST /sandbox/clock", "POST /sandbox/charges/{id}/pay", "POST /sandbox/fund"}
NOT_IN_THE_REFERENCE = {
    "GET /v1/openapi.json",
    "GET /healthz",
    "GET /readyz",
    "GET /.well-known/oauth-authorization-server",
}


@pytest.fixture(scope="module", params=[False, True], ids=["live", "sandbox"])
def ousel(request: pytest.FixtureRequest) -> Ousel:
    """The service, wired up and not opened."""
    return Ousel(Settings(database_url="unopened.db", sandbox=request.param))


def test_the_document_has_the_whole_interface_and_the_sandbox_only_there(ousel: Ousel) -> None:
    """Each endpoint of the interface, what Ousel adds to it, and nothing else."""
    expected = INTERFACE | BEYOND_THE_INTERFACE
    assert set(_operations(ousel)) == expected | (SANDBOX if ousel.settings.sandbox else set())


def test_every_route_is_in_the_document_or_deliberately_not(ousel: Ousel) -> None:
    """A new route must be shown, or be named here as one that is not for partners."""
    base = ousel.settings.base_path
    shown = {
        f"{route.method} {route.path.removeprefix(base)}"
        for route in _routes(ousel)
        if route.in_reference
    }
    hidden = {
        f"{route.method} {route.path}"
        for route in _routes(ousel)
        if not route.in_reference and not route.path.startswith("/assets/")
    }

    assert shown == set(_operations(ousel))
    assert hidden == NOT_IN_THE_REFERENCE


def test_pages_stand_outside_the_interfaces_path(ousel: Ousel) -> None:
    """What a browser opens is never mixed with what a program calls."""
    pages = [route for route in ousel.routes if isinstance(route, PageRoute)]

    assert pages
    assert not [page.path for page in pages if page.path.startswith(ousel.settings.base_path + "/")]


def test_the_document_is_valid_openapi(ousel: Ousel) -> None:
    """As the OpenAPI 3.1 schema judges it, with every reference resolved."""
    schema = schemathesis.openapi.from_dict(ousel.openapi)
    schema.validate()

    assert ousel.openapi["openapi"] == "3.1.0"
    assert not [each for each in schema.get_all_operations() if isinstance(each, Err)]


def test_every_operation_says_all_that_a_client_needs(ousel: Ousel) -> None:
    """A name, sentences, each answer with its form, and the credential that it wants."""
    operations = _operations(ousel)
    names = [operation["operationId"] for operation in operations.values()]

    assert len(set(names)) == len(names)
    for name, operation in operations.items():
        assert re.fullmatch(r"[a-z]+([A-Z][a-z]+)*", operation["operationId"]), name
        assert operation["summary"], name
        assert operation["description"], name
        assert any(status.startswith("2") for status in operation["responses"]), name
        for status, response in operation["responses"].items():
            assert response["description"], (name, status)
            assert ("content" in response) is (status not in {"204", "304"}), (name, status)
        assert operation["security"], name


def test_every_refusal_of_a_route_is_documented_with_its_code(ousel: Ousel) -> None:
    """The answers of an operation name each code that a client may meet there."""
    base = ousel.settings.base_path
    for route in _routes(ousel):
        if not route.in_reference:
            continue
        operation = _operations(ousel)[f"{route.method} {route.path.removeprefix(base)}"]
        for refusal in refusals_of(route):
            response = operation["responses"][str(refusal.status)]
            assert f"`{refusal.code}`" in response["description"], (route.path, refusal.code)
            assert list(response["content"]) == ["application/problem+json"]


def test_a_body_takes_no_field_that_is_not_named(ousel: Ousel) -> None:
    """A misspelt field must not pass silently; OAuth's own requests ignore it, as they must."""
    schemas = ousel.openapi["components"]["schemas"]
    for route in _routes(ousel):
        if route.body is NoBody or "/oauth/" in route.path:
            continue
        assert schemas[route.body.__name__]["additionalProperties"] is False, route.path


def _routes(ousel: Ousel) -> list[Route]:
    return [route for route in ousel.routes if isinstance(route, Route)]


def _operations(ousel: Ousel) -> dict[str, dict[str, Any]]:
    return {
        f"{method.upper()} {path}": operation
        for path, methods in ousel.openapi["paths"].items()
        for method, operation in methods.items()
    }
