"""The served OpenAPI document is good enough for generators that nobody here wrote."""

import asyncio
import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest

from tests.support import node
from tests.support.sample_data import SampleData, create_sample_data
from tests.support.server import Server

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
PROGRAMS = ("generated_client.ts", "generated_types.ts")


class ServedDocument(msgspec.Struct, frozen=True):
    """A sandbox with people, and the document that it serves."""

    server: Server
    sample: SampleData
    document: dict[str, Any]

    def written_to(self, folder: Path) -> Path:
        """Return a file with the document."""
        path = folder / "openapi.json"
        path.write_text(json.dumps(self.document))
        return path


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedDocument]:
    """A sandbox, whose document has every endpoint that there is."""
    database_url = str(tmp_path_factory.mktemp("generators") / "ousel.db")
    with Server(database_url, "--sandbox") as server:
        sample = asyncio.run(create_sample_data(database_url))
        document = httpx2.get(f"{server.base_url}/openapi.json", verify=False).json()
        yield ServedDocument(server, sample, document)


@pytest.fixture(scope="module")
def generated(served: ServedDocument, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what two generators made of the document, and programs that use it."""
    folder = tmp_path_factory.mktemp("generated")
    served.written_to(folder)
    for command in (
        ("openapi-typescript", "openapi.json", "-o", "types.ts"),
        ("openapi-ts", "-i", "openapi.json", "-o", "client"),
    ):
        check_silent(node.run(*command, folder=folder))
    for program in PROGRAMS:
        shutil.copy(HERE / program, folder)
    return folder


def test_a_linter_has_nothing_to_say(served: ServedDocument, tmp_path: Path) -> None:
    """Redocly's strict rules find no error and no warning."""
    assert lint(served.written_to(tmp_path)) == []


def test_the_linter_would_say_it(served: ServedDocument, tmp_path: Path) -> None:
    """A document that was spoilt does not pass."""
    spoilt = msgspec.json.decode(msgspec.json.encode(served.document))
    del spoilt["paths"]["/me"]["get"]["operationId"]
    del spoilt["paths"]["/balance"]["get"]["security"]
    del spoilt["components"]["schemas"]["ChargeRecord"]

    found = lint(ServedDocument(served.server, served.sample, spoilt).written_to(tmp_path))

    for rule in ("operation-operationId", "security-defined", "no-unresolved-refs"):
        assert any(each.startswith(rule) for each in found), found


def test_a_generated_client_moves_money(generated: Path, served: ServedDocument) -> None:
    """A client of @hey-api/openapi-ts can do all of it; types of openapi-typescript guard it."""
    compile_in(generated)
    done = node.run(
        "node",
        "built/generated_client.js",
        served.server.base_url,
        served.sample.key,
        folder=generated,
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    balance = httpx2.get(
        f"{served.server.base_url}/balance",
        headers={"Authorization": f"Bearer {served.sample.key}"},
        verify=False,
    ).json()["available"]

    assert report == {
        "to": "grace",
        "status": "completed",
        "balanceAfter": balance,
        "available": balance,
        "currency": "OUSD",
        "charge": "created",
        "refusal": "account_not_found",
        "oauthError": "invalid_client",
    }


def lint(document: Path) -> list[str]:
    """Return each problem that the linter finds, by its rule."""
    done = node.run(
        "redocly",
        "lint",
        "--extends=recommended-strict",
        "--format=json",
        document.name,
        folder=document.parent,
    )
    report = json.loads(done.stdout)
    problems = [f"{problem['ruleId']}: {problem['message']}" for problem in report["problems"]]
    assert (done.returncode == 0) == (problems == []), done.stderr
    return problems


def check_silent(done: subprocess.CompletedProcess[str]) -> None:
    """Fail where a generator failed, or warned of anything."""
    assert done.returncode == 0, done.stderr
    said = f"{done.stdout}{done.stderr}".lower()
    assert not any(word in said for word in ("warn", "error", "unsupported", "skipp", "⚠")), said


def compile_in(folder: Path) -> None:
    """Compile the programs strictly, or fail with what the compiler says."""
    strictly = ("--strict", "--noUncheckedIndexedAccess", "--skipDefaultLibCheck")
    modern = ("--target", "es2022", "--module", "commonjs")
    done = node.run("tsc", *strictly, *modern, "--outDir", "built", *PROGRAMS, folder=folder)
    assert done.returncode == 0, done.stdout
