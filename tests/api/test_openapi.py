"""The OpenAPI document says what answers contain, so that generated clients can rely on it."""

import re

from ousel.app.ousel import Ousel
from ousel.kernel.settings import Settings

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
