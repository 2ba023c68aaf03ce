"""Every refusal is named, explained and curable; and a client can look each one up."""

import re
from pathlib import Path
from typing import Any

import pytest

from ousel.api.openapi import refusals_of
from ousel.api.route import Route
from ousel.app.ousel import Ousel
from ousel.kernel.errors import InvalidField, Refusal, all_refusals
from ousel.kernel.settings import Settings

ROOT = Path(__file__).parents[2]
REFUSALS = tuple(dict.fromkeys(all_refusals()))
OUTSIDE_OPERATIONS = {
    *("malformed_request", "head_too_large", "not_found", "method_not_allowed"),
    *("schema_outdated", "clock_skewed", "sandbox_only", "unknown_rehearsal"),
}
IN_OAUTHS_OWN_FORM = {
    *("invalid_request", "invalid_client", "invalid_grant", "unsupported_grant_type"),
    *("unsupported_response_type", "invalid_scope", "access_denied"),
}
ON_PAGES = {
    *("form_not_trusted", "connect_address_wrong", "receipt_not_found", "identifier_in_use"),
    *("too_many_attempts", "entrance_full", "wrong_password", "wrong_code"),
    *("second_factor_needed", "app_not_found", "app_has_keys", "key_not_found", "handle_shared"),
    *("email_link_ended", "reset_link_ended", "no_mail", "identity_check_needed"),
    *("passkey_not_accepted", "passkey_not_found", "secret_file_unusable"),
}
STATUSES = {400, 401, 403, 404, 405, 409, 413, 415, 429, 431, 500, 503}
FAULTS = (
    *(("status", 418), ("code", "NoSuchBird"), ("code", ""), ("title", "No such bird.")),
    *(("title", "no such bird"), ("cure", "Look"), ("__doc__", None), ("__doc__", "No bird")),
)


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: refusal.code)
def test_a_refusal_has_all_that_its_answer_and_its_documentation_need(
    refusal: type[Refusal],
) -> None:
    """A status, a stable code, a title without a full stop, a cause and a cure in sentences."""
    assert _lacking(refusal) == []


@pytest.mark.parametrize(("name", "value"), FAULTS)
def test_a_refusal_that_lacks_something_would_be_seen(name: str, value: object) -> None:
    """Each part is looked at, and a wrong one is named."""
    whole: dict[str, Any] = {
        "status": 404,
        "code": "no_such_bird",
        "title": "There is no such bird",
        "cure": "Look for another one.",
        "__doc__": "The bird is not there.",
    }
    assert _lacking(type("Whole", (), whole)) == []

    assert _lacking(type("Spoilt", (), whole | {name: value})) == [name]


def test_a_code_belongs_to_one_refusal() -> None:
    """A program that reads the code knows what happened."""
    codes = [refusal.code for refusal in REFUSALS]

    assert len(codes) > 20
    assert len(set(codes)) == len(codes)


def _lacking(refusal: Any) -> list[str]:
    """Return the names of what a refusal lacks."""
    cause = (refusal.__doc__ or "").strip().split("\n\n")[0]
    right = {
        "status": refusal.status in STATUSES,
        "code": re.fullmatch(r"[a-z]+(_[a-z]+)*", refusal.code),
        "title": refusal.title[:1].isupper() and not refusal.title.endswith("."),
        "cure": refusal.cure.endswith("."),
        "__doc__": cause.endswith(".") and "doc" not in vars(refusal),
    }
    return [name for name, is_right in right.items() if not is_right]


def test_every_refusal_is_met_at_an_endpoint_or_deliberately_not() -> None:
    """A refusal that no operation documents is one of these, which partners do not meet there."""
    ousel = Ousel(Settings(database_url="unopened.db", sandbox=True))
    documented = {
        refusal
        for route in ousel.routes
        if isinstance(route, Route) and route.in_reference
        for refusal in refusals_of(route)
    }

    elsewhere = {refusal.code for refusal in REFUSALS if refusal not in documented}
    assert elsewhere == OUTSIDE_OPERATIONS | IN_OAUTHS_OWN_FORM | ON_PAGES


@pytest.mark.parametrize("client", ["python", "typescript"])
def test_the_examples_of_the_clients_name_every_refusal_of_a_transfer(client: str) -> None:
    """What they do not name is sent again at every start of the partner's program."""
    ousel = Ousel(Settings(database_url="unopened.db"))
    [create] = [each for each in ousel.routes if getattr(each, "name", "") == "createTransfer"]
    assert isinstance(create, Route)
    refusals: list[type[Refusal]] = [*create.refusals, InvalidField]
    final = {each.code for each in refusals if each.status in (400, 404)}
    readme = (ROOT / "clients" / client / "README.md").read_text()
    [listed] = re.findall(r"REFUSALS = \[(.*?)\]", readme, re.DOTALL)

    assert set(re.findall(r'"(\w+)"', listed)) == final
