"""Clients that are generated from the OpenAPI document make a partner's whole journey."""

import json
import secrets
from collections.abc import Callable
from decimal import Decimal
from functools import cache
from typing import Any

import httpx2
import pytest

from clients.generated.tests.builds import BUILDS, Command
from clients.python.tests.faults import FaultProxy
from clients.python.tests.test_connect import connected
from tests.support.added_fields import FieldAddingProxy
from tests.support.partner_program import run_partner_program
from tests.support.seeded import REDIRECT_URI, SeededServer

AMOUNT = "54321.654321"  # more digits than a 32-bit float has

Built = Callable[[str, SeededServer], Command]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """A function that builds the program of a language once, and returns its command."""
    folder = tmp_path_factory.mktemp("document")

    @cache
    def build(language: str, base_url: str) -> Command:
        document = folder / "openapi.json"
        document.write_text(httpx2.get(f"{base_url}/openapi.json").text)
        return BUILDS[language](document, tmp_path_factory.mktemp(language))

    return lambda language, sandbox: build(language, sandbox.base_url)


async def make_journey(command: Command, sandbox: SeededServer, proxy: FaultProxy) -> None:
    """Run the program through the proxy, whose first answers are lost, and check its report."""
    names: list[str] = []

    async def open_address(url: str) -> str:
        return_url, user = await connected(sandbox, url)
        names.append(user.username)
        return return_url

    reference = f"journey-{secrets.token_hex(5)}"
    proxy.planned = ["answer lost", "503 before"]
    report: dict[str, Any] = await run_partner_program(
        *command,
        options={
            "baseUrl": proxy.base_url,
            "portalUrl": sandbox.server.origin,
            "key": sandbox.key,
            "clientId": sandbox.app.id,
            "redirectUri": REDIRECT_URI,
            "reference": reference,
            "amount": AMOUNT,
        },
        open_address=open_address,
    )

    print(json.dumps(report))
    [stored] = [each for each in await sandbox.transfers() if each.idempotency_key == reference]
    assert report.pop("attempts") > 1
    assert Decimal(str(report.pop("amount"))) == Decimal(AMOUNT)
    assert Decimal(str(report.pop("available"))) == Decimal("12.50")
    assert stored.amount == int(Decimal(AMOUNT).scaleb(6))
    assert report == {
        "transfer": stored.id,
        "kind": "transfer",
        "refusal": "account_not_found",
        "charge": "paid",
        "paidBy": "ada",
        "scope": "profile balance",
        "username": names[0],
    }


@pytest.mark.parametrize("language", BUILDS)
async def test_a_generated_client_makes_the_whole_journey(
    built: Built, sandbox: SeededServer, language: str
) -> None:
    """A transfer whose answer was lost, a charge that is polled, and a person who connects."""
    command = built(language, sandbox)

    async with FaultProxy(sandbox.server.port, seed=0, chance=0) as proxy:
        await make_journey(command, sandbox, proxy)


@pytest.mark.parametrize("language", BUILDS)
async def test_a_field_added_to_each_object_breaks_nothing(
    built: Built, sandbox: SeededServer, language: str
) -> None:
    """The same program makes the same journey when every object in every answer has a new field."""
    command = built(language, sandbox)

    async with FieldAddingProxy(sandbox.server.port) as proxy:
        await make_journey(command, sandbox, proxy)

    assert proxy.added > 0
