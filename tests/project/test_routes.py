"""Every route is in the OpenAPI document, or deliberately not; and the document is valid."""

import re
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest

from ousel.api.openapi import refusals_of
from ousel.api.route import NoBody, Route
from ousel.app.ousel import Ousel
from ousel.kernel.settings import Settings
from ousel.site.visits import PageRoute

INTERFACE = {
    *("GET /me", "GET /balance", "GET /accounts/{identifier}", "POST /transfers"),
    *("GET /transfers", "POST /charges", "GET /charges/{id}", "GET /charges"),
    *("POST /charges/{id}/cancel", "POST /oauth/token", "GET /user/me", "GET /user/balance"),
}
BEYOND_THE_INTERFACE = {"POST /oauth/revoke", "GET /transfers/{id}", "GET /transfers/{id}/receipt"}
SANDBOX = {
    *("POST /sandbox/clock", "POST /sandbox/charges/{id}/pay", "POST /sandbox/fund"),
    *("GET /sandbox/mail", "POST /sandbox/lab", "GET /sandbox/lab/{id}"),
    "POST /sandbox/lab/{id}/finish",
}
NOT_IN_THE_REFERENCE = {
    "GET /v1/openapi.json",
    "GET /v1/collection.json",
    "GET /healthz",
    "GET /readyz",
    "GET /.well-known/oauth-authorization-server",
}
GONE = None
# Faults of a document: where below /transfers, and what stands there instead.
FAULTS: dict[str, tuple[tuple[str, ...], Any]] = {
    "a route without an operation": (("get",), GONE),
    "an operation without a route": (
        ("patch",),
        {
            "operationId": "changeTransfer",
            "summary": "Change it",
            "description": "Change it.",
            "security": [{"partnerKey": []}],
            "responses": {"204": {"description": "It is changed."}},
        },
    ),
    "a name that another has": (("get", "operationId"), "createTransfer"),
    "a name that is none": (("get", "operationId"), "list_transfers"),
    "no summary": (("post", "summary"), ""),
    "no description": (("post", "description"), ""),
    "no credential": (("get", "security"), []),
    "no success": (("get", "responses", "200"), GONE),
    "an answer without a meaning": (("post", "responses", "201", "description"), ""),
    "an answer without a form": (("post", "responses", "201", "content"), GONE),
    "a code that is not named": (("post", "responses", "409", "description"), "It is taken."),
    "a refusal that is no problem": (("post", "responses", "409", "content"), {"text/plain": {}}),
    "a status that is not told": (("post", "responses", "409"), GONE),
}


@pytest.fixture(scope="module", params=[False, True], ids=["live", "sandbox"])
def ousel(request: pytest.FixtureRequest) -> Ousel:
    """The service, wired up and not opened."""
    return Ousel(Settings(database_url="unopened.db", sandbox=request.param))


def test_the_document_has_the_whole_interface_and_the_sandbox_only_there(ousel: Ousel) -> None:
    """Each endpoint of the interface, what Ousel adds to it, and nothing else."""
    expected = INTERFACE | BEYOND_THE_INTERFACE
    assert set(_operations(ousel.openapi)) == expected | (
        SANDBOX if ousel.settings.sandbox else set()
    )


def test_every_route_is_in_the_document_or_deliberately_not(ousel: Ousel) -> None:
    """A new route must be shown, or be named here as one that is not for partners."""
    hidden = {
        f"{route.method} {route.path}"
        for route in _routes(ousel)
        if not route.in_reference and not route.path.startswith(("/assets/", "/log/"))
    }

    assert list(_routes_astray(ousel, ousel.openapi)) == []
    assert hidden == NOT_IN_THE_REFERENCE


def test_pages_stand_outside_the_interfaces_path(ousel: Ousel) -> None:
    """What a browser opens is never mixed with what a program calls."""
    pages = [route for route in ousel.routes if isinstance(route, PageRoute)]

    assert pages
    assert not [page.path for page in pages if page.path.startswith(ousel.settings.base_path + "/")]


@pytest.mark.slow
def test_the_document_is_valid_openapi(ousel: Ousel) -> None:
    """As the OpenAPI 3.1 schema judges it, with every reference resolved."""
    import schemathesis
    from schemathesis.core.result import Err

    schema = schemathesis.openapi.from_dict(ousel.openapi)
    schema.validate()

    assert ousel.openapi["openapi"] == "3.1.0"
    assert not [each for each in schema.get_all_operations() if isinstance(each, Err)]


def test_every_operation_says_all_that_a_client_needs(ousel: Ousel) -> None:
    """A name, sentences, each answer with its form, and the credential that it wants."""
    assert list(_left_unsaid(ousel.openapi)) == []


def test_every_refusal_of_a_route_is_documented_with_its_code(ousel: Ousel) -> None:
    """The answers of an operation name each code that a client may meet there."""
    assert list(_codes_missing(ousel, ousel.openapi)) == []


def test_a_body_takes_no_field_that_is_not_named(ousel: Ousel) -> None:
    """A misspelt field must not pass silently; OAuth's own requests ignore it, as they must."""
    assert list(_loose_bodies(ousel, ousel.openapi)) == []


def test_every_amount_fits_its_schema_where_numbers_are_doubles(ousel: Ousel) -> None:
    """No multipleOf, by which validators divide: in doubles, 0.1 is no multiple of a millionth."""
    amount = ousel.openapi["components"]["schemas"]["TransferRequest"]["properties"]["amount"]

    assert amount["minimum"] == 0.000001
    assert amount["maximum"] == 999999999.999999
    assert "multipleOf" not in str(ousel.openapi)


def test_a_header_that_an_answer_always_has_is_documented(ousel: Ousel) -> None:
    """A client that is generated can poll with an ETag, tell a replay, and wait as it is told."""
    operations = _operations(ousel.openapi)
    documented = {
        f"{name} {status} {header}"
        for name, operation in operations.items()
        for status, response in operation["responses"].items()
        for header in response["headers"]
    }

    for name in ("POST /transfers", "POST /charges"):
        assert f"{name} 200 Idempotent-Replayed" in documented
    for status in ("200", "304"):
        assert f"GET /charges/{{id}} {status} ETag" in documented
    for name in operations:
        assert f"{name} 401 WWW-Authenticate" in documented
        assert f"{name} 429 Retry-After" in documented


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_a_document_with_a_fault_would_not_pass(ousel: Ousel, fault: str) -> None:
    """What is planted in a copy of the document is found, where it is and nowhere else."""
    spoilt = deepcopy(ousel.openapi)
    (*way, last), value = FAULTS[fault]
    place = spoilt["paths"]["/transfers"]
    for step in way:
        place = place[step]
    place[last] = value
    if value is GONE:
        del place[last]

    found = [*_routes_astray(ousel, spoilt), *_left_unsaid(spoilt), *_codes_missing(ousel, spoilt)]

    assert found
    assert all(" /transfers" in each for each in found), found


def test_a_loose_body_would_not_pass(ousel: Ousel) -> None:
    """A schema that lets any field in is found."""
    spoilt = deepcopy(ousel.openapi)
    spoilt["components"]["schemas"]["TransferRequest"]["additionalProperties"] = True

    assert list(_loose_bodies(ousel, spoilt)) == ["/v1/transfers"]


def _routes_astray(ousel: Ousel, document: dict[str, Any]) -> Iterator[str]:
    """Yield each route that the document lacks, and each operation that no route serves."""
    base = ousel.settings.base_path
    shown = {
        f"{route.method} {route.path.removeprefix(base)}"
        for route in _routes(ousel)
        if route.in_reference
    }
    yield from shown ^ set(_operations(document))


def _left_unsaid(document: dict[str, Any]) -> Iterator[str]:
    """Yield what operations do not say, and names that two of them have."""
    operations = _operations(document)
    names = [operation["operationId"] for operation in operations.values()]
    for name, operation in operations.items():
        responses = operation["responses"]
        said = {
            "a name": re.fullmatch(r"[a-z]+([A-Z][a-z]+)*", operation["operationId"]),
            "a name of its own": names.count(operation["operationId"]) == 1,
            "a summary": operation["summary"],
            "a description": operation["description"],
            "a credential": operation["security"],
            "a success": any(status.startswith("2") for status in responses),
            "what its answers mean": all(each["description"] for each in responses.values()),
            "its answers' forms": all(
                ("content" in each) is (status not in {"204", "304"})
                for status, each in responses.items()
            ),
        }
        yield from (f"{name} lacks {what}" for what, is_said in said.items() if not is_said)


def _codes_missing(ousel: Ousel, document: dict[str, Any]) -> Iterator[str]:
    """Yield each code that a route may answer with and its operation does not name."""
    base, operations = ousel.settings.base_path, _operations(document)
    for route in _routes(ousel):
        name = f"{route.method} {route.path.removeprefix(base)}"
        for refusal in refusals_of(route) if name in operations else ():
            response = operations[name]["responses"].get(str(refusal.status), {})
            named = f"`{refusal.code}`" in response.get("description", "")
            if not named or list(response.get("content", ())) != ["application/problem+json"]:
                yield f"{name} lacks {refusal.code}"


def _loose_bodies(ousel: Ousel, document: dict[str, Any]) -> Iterator[str]:
    """Yield each route whose body may have fields that nobody knows."""
    schemas = document["components"]["schemas"]
    for route in _routes(ousel):
        if route.body is NoBody or "/oauth/" in route.path:
            continue
        if schemas[route.body.__name__]["additionalProperties"] is not False:
            yield route.path


def _routes(ousel: Ousel) -> list[Route]:
    return [route for route in ousel.routes if isinstance(route, Route)]


def _operations(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {
        f"{method.upper()} {path}": operation
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    }
