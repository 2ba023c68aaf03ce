"""The OpenAPI document says what answers contain, so that generated clients can rely on it."""

import re
from pathlib import Path

import msgspec

from ousel.api.problems import problem_answer
from ousel.app.ousel import Ousel
from ousel.kernel.settings import Settings
from ousel.ledger.refusals import AccountNotFound

ROOT = Path(__file__).parents[2]
OPENAPI = Ousel(Settings(database_url="unused.db", sandbox=True)).openapi


def test_every_field_of_an_answer_is_required() -> None:
    """Clients are told that it is always there, also in records within records."""
    components = OPENAPI["components"]["schemas"]
    waiting = [
        response["content"]
        for path in OPENAPI["paths"].values()
        for operation in path.values()
        for status, response in operation["responses"].items()
        if status.startswith("2")
    ]
    found = set[str]()
    while waiting:
        new = set(re.findall(r"#/components/schemas/(\w+)", str(waiting))) - found
        found |= new
        waiting = [components[name] for name in new]
    assert {"MailRecord", "TransferRecord"} <= found
    for name in found:
        assert set(components[name]["required"]) == set(components[name]["properties"]), name


def test_the_text_form_of_a_receipt_is_a_content_type() -> None:
    """A parameter named Accept would be ignored by tools that read the document."""
    receipt = OPENAPI["paths"]["/transfers/{id}/receipt"]["get"]
    assert list(receipt["responses"]["200"]["content"]) == ["application/json", "text/plain"]
    assert [each["name"] for each in receipt["parameters"]] == ["id", "Prefer"]


def test_every_member_of_a_problem_is_described() -> None:
    """Typed clients drop what the document does not name. Absent members are not required."""
    problem = OPENAPI["components"]["schemas"]["Problem"]
    members = {
        name
        for path in (ROOT / "src").rglob("*.py")
        for literal in re.findall(r"members=\{(.*?)\}", path.read_text(), re.DOTALL)
        for name in re.findall(r'"(\w+)":', literal)
    } - {"allow"}  # a header

    assert members == {"transfer_id", "charge_id", "charge_status", "scope"}
    assert members <= set(problem["properties"])
    assert not members & set(problem["required"])


def test_a_problem_has_only_the_members_that_apply() -> None:
    """The others are absent, not null."""
    refusal = AccountNotFound("No.", members={"charge_id": "ch_1", "charge_status": "paid"})

    plain = msgspec.json.decode(problem_answer(AccountNotFound("No."), "req_1", "/docs").body)
    closed = msgspec.json.decode(problem_answer(refusal, "req_1", "/docs").body)

    assert list(plain) == ["type", "title", "status", "detail", "code", "request_id"]
    assert list(closed) == [*plain, "charge_id", "charge_status"]
    assert closed == plain | refusal.members


def test_retry_after_is_described_wherever_it_is_sent() -> None:
    """A 429 always has it; a 503 may, and so may the 404 of a receipt that is not ready."""
    headers = {
        (path, status): response["headers"].get("Retry-After")
        for path, operations in OPENAPI["paths"].items()
        for operation in operations.values()
        for status, response in operation["responses"].items()
    }
    described = {place: header for place, header in headers.items() if header}

    assert {status for _, status in described} == {"404", "429", "503"}
    assert [path for path, status in described if status == "404"] == ["/transfers/{id}/receipt"]
    assert all(headers[place] for place in headers if place[1] in {"429", "503"})
    assert all(header["required"] == (place[1] == "429") for place, header in described.items())


def test_preference_applied_is_described_wherever_an_answer_may_wait() -> None:
    """With it, a caller sees whether the server has delayed the answer."""
    described = {
        (operation["operationId"], status)
        for operations in OPENAPI["paths"].values()
        for operation in operations.values()
        for status, response in operation["responses"].items()
        if "Preference-Applied" in response["headers"]
    }

    assert described == {
        *(("listTransfers", "200"), ("getCharge", "200"), ("getCharge", "304")),
        *(("getReceipt", "200"), ("getReceipt", "404")),
    }


def test_requests_to_oauth_state_what_they_need() -> None:
    """A client that is generated from the document cannot omit these fields or send null."""
    schemas = OPENAPI["components"]["schemas"]
    required = {
        name: {field: schemas[name]["properties"][field]["type"] for field in fields}
        for name in ("TokenRequest", "RevocationRequest")
        for fields in [schemas[name]["required"]]
    }

    assert required == {
        "TokenRequest": dict.fromkeys(("grant_type", "code", "redirect_uri"), "string"),
        "RevocationRequest": {"token": "string"},
    }
    assert "x-required" not in str(OPENAPI)


def test_the_cursor_of_transfers_may_be_a_sequence() -> None:
    """The description of the parameter says it, and its limits are those of every cursor."""
    cursors = {
        path: each["schema"]
        for path in ("/transfers", "/charges")
        for each in OPENAPI["paths"][path]["get"]["parameters"]
        if each["name"] == "cursor"
    }
    described = cursors["/transfers"].pop("description")

    assert described.startswith(cursors["/charges"].pop("description"))
    assert "`sequence`" in described
    assert cursors["/transfers"] == cursors["/charges"]
