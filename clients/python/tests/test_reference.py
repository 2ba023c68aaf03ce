"""The Python examples in the API reference run, and each does what its operation is for."""

import asyncio
import html
from typing import Any

import httpx2
import pytest

from clients.python.tests.test_connect import connected
from ousel.app.ousel import Ousel
from ousel.docs.client_examples import PYTHON_EXAMPLES, TYPESCRIPT_EXAMPLES
from ousel.kernel.clock import MICROS_PER_SECOND
from ousel.kernel.settings import Settings
from ousel_client import Charge, Client, ProofKey, Transfer
from ousel_client.refusals import InvalidToken
from tests.support.clock import ManualClock
from tests.support.seeded import REDIRECT_URI, SeededServer


def test_every_operation_has_an_example_in_python() -> None:
    """There is an example for each operation of a sandbox, and for no other."""
    document = Ousel(Settings(database_url="never-opened.db", sandbox=True)).openapi
    names = [each["operationId"] for path in document["paths"].values() for each in path.values()]

    assert sorted(PYTHON_EXAMPLES) == sorted(names)


def test_the_examples_run_unchanged(sandbox: SeededServer) -> None:
    """The examples run unchanged, one after the other."""
    with Client(sandbox.key, base_url=sandbox.base_url) as client:
        found: dict[str, Any] = {"client": client, "client_id": sandbox.app.id}

        def run(*operations: str) -> None:
            for operation in operations:
                exec(compile(PYTHON_EXAMPLES[operation], operation, "exec"), found)

        run("getMe", "getBalance", "getAccount", "createTransfer", "listTransfers")
        assert isinstance(found["transfer"], Transfer)
        assert found["account"].username == "ada"
        found["transfer_id"] = found["transfer"].id
        run("getTransfer")
        assert found["transfer"].id == found["transfer_id"]
        run("createCharge", "listCharges")
        found["charge_id"] = client.charges.create(amount=1).id
        run("getCharge", "fundSandboxAccount", "paySandboxCharge")
        paid: Charge = found["charge"]
        found["charge_id"] = client.charges.create(amount=1).id
        run("cancelCharge")
        canceled: Charge = found["charge"]
        assert (paid.status, canceled.status) == ("paid", "canceled")
        _connect(client, sandbox, found)
        run("createUserToken")
        found["token"] = found["token"].access_token
        run("getUser", "getUserBalance", "revokeUserToken", "advanceSandboxClock")
        run("listSandboxMail", "startRehearsal")
        found["rehearsal_id"] = found["rehearsal"].id
        run("getRehearsal", "finishRehearsal")
        assert found["rehearsal"].status == "ended"
        assert found["person"].username.startswith("user_")
        with pytest.raises(InvalidToken):
            found["user"].me()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("operation", "name"), [("createTransfer", "transfer"), ("createCharge", "charge")]
)
def test_the_examples_for_python_and_curl_make_the_same(
    sandbox: SeededServer, operation: str, name: str
) -> None:
    """All examples have the same idempotency key, so trying them moves or asks for money once."""
    page = html.unescape(httpx2.get(f"{sandbox.server.origin}/docs/api/{operation}").text)
    body = page.partition("-d '")[2].partition("'")[0]
    headers = {
        "Authorization": f"Bearer {sandbox.key}",
        "Content-Type": "application/json",
        "Idempotency-Key": "order-2001",
    }
    by_curl = httpx2.post(f"{sandbox.base_url}/{name}s", content=body, headers=headers).json()

    with Client(sandbox.key, base_url=sandbox.base_url) as client:
        found: dict[str, Any] = {"client": client}
        exec(compile(PYTHON_EXAMPLES[operation], operation, "exec"), found)

    assert found[name].id == by_curl["id"]
    assert 'idempotency_key: "order-2001"' in TYPESCRIPT_EXAMPLES[operation]


def _connect(client: Client, sandbox: SeededServer, found: dict[str, Any]) -> None:
    """Let a person connect, and store the code for the next example."""
    proof_key = ProofKey()
    url = client.connect_url(
        client_id=sandbox.app.id,
        redirect_uri=REDIRECT_URI,
        state="s",
        scope=("profile", "balance"),
        proof_key=proof_key,
    )
    now = client.sandbox.advance_clock(0).now  # other tests may have advanced it
    micros = int(now.timestamp() * MICROS_PER_SECOND)
    return_url, _ = asyncio.run(connected(sandbox, url, ManualClock(micros)))
    found["code"] = client.code_from(return_url, state="s")
    found |= {"redirect_uri": REDIRECT_URI, "code_verifier": proof_key.verifier}
