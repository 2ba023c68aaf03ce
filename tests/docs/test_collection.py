"""The collection that partners download has every call, works as it is, and has no secret."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.support.passwords import hash_quickly
from tests.support.portal import Portal, open_portal
from tests.support.visitor import Visitor

pytestmark = pytest.mark.one_engine

PATH = "/v1/collection.json"


@pytest.fixture
async def sandbox(database_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Portal]:
    """A sandbox inside the test's process."""
    hash_quickly(monkeypatch)
    async with open_portal(database_url, sandbox=True) as opened:
        yield opened


class Tool:
    """Sends the requests of a collection as the tools that import it do."""

    def __init__(self, visitor: Visitor, collection: dict[str, Any], **variables: str) -> None:
        self._client = visitor.client
        self._requests = {each["name"]: each["request"] for each in collection["item"]}
        known = {each["key"]: each["value"] for each in collection["variable"]}
        assert variables.keys() <= known.keys()
        self._variables = known | variables

    async def send(self, name: str) -> Any:
        """Send the request with this name, and return the JSON of its answer."""
        request = self._requests[name]
        url = request["url"]["raw"]
        for each in request["url"]["variable"]:
            url = url.replace(f":{each['key']}", each["value"])
        headers = {each["key"]: each["value"] for each in request["header"] if _is_on(each)}
        kind = request["auth"]["type"]
        auth = {each["key"]: self._fill(each["value"]) for each in request["auth"][kind]}
        if kind == "bearer":
            headers["Authorization"] = f"Bearer {auth['token']}"
        answer = await self._client.request(
            request["method"],
            self._fill(url),
            params={each["key"]: each["value"] for each in request["url"]["query"] if _is_on(each)},
            headers=headers,
            content=request.get("body", {}).get("raw", ""),
            auth=(auth["username"], auth["password"]) if kind == "basic" else None,
        )
        return answer.json()

    def _fill(self, text: str) -> str:
        for name, value in self._variables.items():
            text = text.replace(f"{{{{{name}}}}}", value)
        return text


def _is_on(parameter: dict[str, Any]) -> bool:
    return not parameter.get("disabled", False)


async def test_the_calls_of_the_collection_work(sandbox: Portal) -> None:
    """With a key as its only setting: each credential, each kind of parameter, and bodies."""
    await sandbox.person("ada")
    owner = await sandbox.person("grace")
    await sandbox.fund("grace", "100.00")
    app = await owner.create_app("Shop")
    key = await owner.issue_key(app)
    collection = (await sandbox.visitor().get(PATH)).json()
    client_id = app.removeprefix("/apps/")
    tool = Tool(sandbox.visitor(), collection, key=key, client_id=client_id)

    assert (await tool.send("Read your own account"))["app"]["client_id"] == client_id
    assert (await tool.send("Look an account up"))["username"] == "ada"
    assert (await tool.send("Send a transfer"))["idempotency_key"] == "order-2001"
    assert len((await tool.send("List your transfers"))["data"]) == 2
    assert (await tool.send("Create a charge"))["status"] == "created"
    assert (await tool.send("Exchange a code for a user token"))["error"] == "invalid_grant"
    assert (await tool.send("Read the user's profile"))["code"] == "invalid_token"


async def test_the_collection_has_every_operation_and_no_secret(sandbox: Portal) -> None:
    """It is a file with the format's name, the same for everyone, and sent once."""
    visitor = await sandbox.person("grace")
    await visitor.issue_key(await visitor.create_app("Shop"))
    answer = await visitor.get(PATH)
    document = (await visitor.get("/v1/openapi.json")).json()
    tag = answer.headers["etag"]
    again = [
        await visitor.get(PATH, **{"If-None-Match": known})
        for known in (tag, f"W/{tag}", f'"x", {tag}', "*")
    ]
    collection = answer.json()

    assert [each["name"] for each in collection["item"]] == [
        operation["summary"] for path in document["paths"].values() for operation in path.values()
    ]
    assert collection["info"]["schema"].endswith("/collection/v2.1.0/collection.json")
    assert "ousel.postman_collection.json" in answer.headers["content-disposition"]
    assert "sk_" not in answer.text
    assert [(each.status_code, each.text) for each in again] == [(304, "")] * 4
    assert PATH in (await visitor.get("/docs/api")).text
