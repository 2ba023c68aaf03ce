"""The built package in a partner's project: the README's code, and what must not compile."""

import json
import re
import shutil
from pathlib import Path

import httpx2
import pytest

from clients.python.tests.test_connect import connected
from ousel.docs.client_examples import PYTHON_EXAMPLES, TYPESCRIPT_EXAMPLES
from tests.support import node
from tests.support.partner_program import run_partner_program
from tests.support.seeded import SeededServer

pytestmark = pytest.mark.slow

CLIENT = Path(__file__).parents[1]
PROGRAMS = Path(__file__).parent / "programs"
SOURCES = ("package.json", "tsconfig.json", "src")
# A partner's project has the types of Node.js. These few lines stand for them.
NODE_TYPES = """declare module "node:fs";
declare const process: { env: Record<string, string | undefined>; stdin: AsyncIterable<string> };
"""
STRICT = ("--strict", "--noUncheckedIndexedAccess", "--exactOptionalPropertyTypes")
MODERN = ("--target", "es2022", "--module", "nodenext", "--lib", "es2022,dom")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project in which the package is installed, with the README's code as readme.ts."""
    built = tmp_path_factory.mktemp("built")
    for name in SOURCES:
        copy = shutil.copytree if (CLIENT / name).is_dir() else shutil.copy
        copy(CLIENT / name, built / name)
    compile_in(built, "--project", ".")
    folder = tmp_path_factory.mktemp("project")
    installed = folder / "node_modules" / "ousel-client"
    shutil.copytree(built / "dist", installed / "dist")
    shutil.copy(built / "package.json", installed)
    (folder / "package.json").write_text('{"type": "module"}')
    (folder / "node.d.ts").write_text(NODE_TYPES)
    blocks = re.findall(r"```ts\n(.*?)```", (CLIENT / "README.md").read_text(), re.DOTALL)
    assert len(blocks) == 9
    end = (PROGRAMS / "readme_end.ts").read_text()
    (folder / "readme.ts").write_text("\n".join([*blocks, end]))
    shutil.copy(PROGRAMS / "wrong_uses.ts", folder)
    (folder / "examples.ts").write_text(_program_of_examples())
    return folder


# What examples need besides the client.
NEEDED = {
    **dict.fromkeys(
        ("getTransfer", "getReceipt"),
        'const transferId = (await client.transfers.send({ to: "@ada", amount: 1n })).id;',
    ),
    **dict.fromkeys(
        ("getCharge", "paySandboxCharge", "cancelCharge"),
        "const chargeId = (await client.charges.create({ amount: 1n })).id;",
    ),
    **dict.fromkeys(
        ("getRehearsal", "finishRehearsal"),
        'const rehearsalId = (await client.sandbox.startRehearsal("slow")).id;',
    ),
}
# These need a person who connects, or would change the time of other tests.
NOT_RUN = ("createUserToken", "revokeUserToken", "getUser", "getUserBalance", "advanceSandboxClock")
ARGUMENTS = ("code", "token", "clientId", "redirectUri", "codeVerifier")


def _program_of_examples() -> str:
    """Return a program with the examples of the API reference, each in a block of its own."""
    blocks = {
        name: f"{{ {NEEDED.get(name, '')}\n{example}\n}}"
        for name, example in TYPESCRIPT_EXAMPLES.items()
    }
    first = "fundSandboxAccount"  # the payer needs money
    arguments = ", ".join(f"{name}: string" for name in ARGUMENTS)
    names = [first, *(name for name in blocks if name not in {first, *NOT_RUN})]
    return "\n".join(
        [
            'import { Client } from "ousel-client";',
            "const baseUrl = process.env.OUSEL_BASE_URL!;",
            "const client = new Client(process.env.OUSEL_KEY!, { baseUrl });",
            *(blocks[name] for name in names),
            f"export async function notRun({arguments}) {{",
            *(blocks[name] for name in NOT_RUN),
            "}",
            f"console.log({len(names)});",
        ]
    )


def compile_in(folder: Path, *options: str) -> None:
    """Compile, or fail with what the compiler says; its own library needs no check."""
    done = node.run("tsc", "--skipDefaultLibCheck", *options, folder=folder)
    assert done.returncode == 0, done.stdout + done.stderr


def test_types_guard_a_partners_program(project: Path) -> None:
    """The README's code and all examples compile under the strictest rules; wrong uses do not."""
    programs = ("readme.ts", "examples.ts", "wrong_uses.ts")
    compile_in(project, *STRICT, *MODERN, "--noEmit", "node.d.ts", *programs)


async def test_the_examples_of_the_reference_run(
    project: Path, sandbox: SeededServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every operation has an example; each is compiled, and all but a few are run."""
    monkeypatch.chdir(project)
    monkeypatch.setenv("OUSEL_KEY", sandbox.key)
    monkeypatch.setenv("OUSEL_BASE_URL", sandbox.base_url)

    count = await run_partner_program(node.NODE, "examples.ts", options={})

    assert sorted(TYPESCRIPT_EXAMPLES) == sorted(PYTHON_EXAMPLES)
    assert count == len(TYPESCRIPT_EXAMPLES) - len(NOT_RUN)


async def test_the_readme_does_what_it_says(
    project: Path, sandbox: SeededServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every block runs: money moves, an open intent is finished, and a person connects.

    An intent stays open after an error that may come from a proxy or a wrong address. The paid
    charge is among those that have changed since it was created.
    """
    names: list[str] = []

    async def open_address(url: str) -> str:
        return_url, user = await connected(sandbox, url)
        names.append(user.display_name)
        return return_url

    monkeypatch.chdir(project)
    monkeypatch.setenv("OUSEL_KEY", sandbox.key)
    monkeypatch.setenv("OUSEL_BASE_URL", sandbox.base_url)
    monkeypatch.setenv("OUSEL_LOG_KEY", httpx2.get(f"{sandbox.server.origin}/log/key").text)
    seen = await run_partner_program(node.NODE, "readme.ts", options={}, open_address=open_address)

    assert seen == {
        "isSame": True,
        "open": {
            "errors": ["404 ", "404 Not Found", "404 not_found", "400 ", "400 malformed_request"],
            "files": ["crashed.json"],
        },
        "isProven": True,
        "isFollowed": True,
        "hasChanged": True,
        "greeting": f"{names[0]} has 12.50 OUSD.",
        "denied": "You did not connect your account.",
        "paid": "paid",
        "total": "0.30",
    }


def test_the_readme_names_the_oldest_node_that_the_package_accepts() -> None:
    """Its example needs `flush`, and following with a signal needs `AbortSignal.any`."""
    accepted = [
        json.loads((CLIENT / "package.json").read_text())["engines"]["node"],
        json.loads((CLIENT / "package-lock.json").read_text())["packages"][""]["engines"]["node"],
    ]

    assert accepted == [">=20.10"] * 2
    assert "Node.js 20.10 or newer" in (CLIENT / "README.md").read_text()


def test_the_readme_creates_charges_with_the_key_of_the_order() -> None:
    """Without it, a second click or a crash would lead to a second charge."""
    created = re.findall(
        r"charges\.create\(\{(.*?)\}\)", (CLIENT / "README.md").read_text(), re.DOTALL
    )

    assert created
    for terms in created:
        [reference] = re.findall(r'reference: "(.+)"', terms)
        assert f'idempotency_key: "{reference}"' in terms


def test_the_readme_states_the_defaults() -> None:
    """The table of settings has the same defaults as the code."""
    text = (CLIENT / "README.md").read_text()
    policy = re.findall(
        r"^  (\w+): ([\d.]+),$", (CLIENT / "src" / "retrying.ts").read_text(), re.MULTILINE
    )
    [seconds] = re.findall(r"TIMEOUT_SECONDS = (\d+);", (CLIENT / "src" / "clients.ts").read_text())

    assert len(policy) == 4
    assert all(f"`{name}` {value}" in text for name, value in policy)
    assert f"| {seconds} |" in text
