"""What a fuzzer checks beyond its own checks: why a request that fits the schema was refused."""

from typing import Any

import schemathesis
from schemathesis import Case, CheckContext, HookContext, Response

BEYOND_THE_SCHEMA = {
    ("insufficient_balance", "amount"),
    ("invalid_amount", "amount"),  # it has a seventh decimal
    ("same_account", "to"),
    ("charge_not_cancelable", None),
    ("invalid_field", "idempotency_key"),  # the header and the field differ
    ("invalid_field", "rehearsal"),  # without a redirect URI, nobody can return
    ("invalid_field", "advance"),  # the clock can go no further
}


@schemathesis.hook
def map_body(_: HookContext, body: Any) -> Any:
    """Give an amount six decimals at most, which the schema leaves to a sentence."""
    amount = body.get("amount") if isinstance(body, dict) else None
    return body | {"amount": round(amount, 6)} if isinstance(amount, float) else body


@schemathesis.check
def a_valid_request_is_refused_by_a_rule_beyond_the_schema(
    _: CheckContext, response: Response, case: Case[Any]
) -> None:
    """A 400 to a request that fits the schema is one of the rules that no schema can tell."""
    fits = case.meta is not None and case.meta.generation.mode.is_positive
    if not fits or response.status_code != 400 or "/oauth/" in case.path:
        return
    problem = response.json()
    assert (problem["code"], problem.get("param")) in BEYOND_THE_SCHEMA, problem


@schemathesis.check
def a_refusal_can_be_named_to_the_operator(
    _: CheckContext, response: Response, case: Case[Any]
) -> None:
    """Every answer has a request id, and a problem repeats it."""
    (request_id,) = response.headers["x-request-id"]
    assert request_id.startswith("req_")
    if response.headers.get("content-type") == ["application/problem+json"]:
        assert response.json()["request_id"] == request_id, case.path
