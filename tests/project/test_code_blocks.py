"""Every code block in the documents that can run is run, in order, and works."""

import asyncio
import html
import re
from collections.abc import Iterator
from pathlib import Path
from textwrap import indent

import httpx2
import pytest

from tests.project.code_blocks import PROGRAMS, Block, Reader, blocks_in
from tests.project.documents import ROOT, documents
from tests.support.engines import Engines
from tests.support.server import Server
from tests.support.visitor import Visitor

pytestmark = pytest.mark.slow

TEXTS = {"go", "html", "sql", "text", "ts", "yaml"}  # shown, but not run
# Blocks, or whole documents, that cannot run here: why, and what tests the same instead.
CANNOT_RUN = {
    "README.md-1": ("it runs these very tests, and a demo", "tests/cli/test_demo.py"),
    "README.md-3": ("it serves until it is stopped", "tests/packaging/test_wheel.py"),
    "CONTRIBUTING.md-1": ("it runs these very tests, and longer ones", "Makefile"),
    "clients/python/README.md": (
        "its blocks are one program, which is run as a whole",
        "clients/python/tests/test_readme.py",
    ),
    "clients/typescript/README.md": (
        "its blocks are one program, which is run as a whole",
        "clients/typescript/tests/test_package.py",
    ),
    "deploy/cluster/README.md": ("it needs three machines", "tests/cluster"),
    "docs/concepts/proof.md": (
        "its blocks check a receipt in a file",
        "tests/sealed_log/test_documented_checks.py",
    ),
    "docs/how-to/follow.md-2": (
        "it follows until it is stopped",
        "clients/python/tests/test_readme.py",
    ),
    "docs/operating/citus.md-1": ("it needs several servers", "tests/citus"),
    "docs/operating/cluster.md-1": ("it needs three machines", "tests/cluster"),
    "docs/operating/install.md-1": ("it installs in /opt", "tests/packaging/test_wheel.py"),
    "docs/operating/install.md-2": ("it serves until it is stopped", "tests/support/server.py"),
    "docs/operating/install.md-3": ("it reads files in /etc", "tests/project/test_deploy.py"),
    "docs/operating/install.md-4": ("it builds a container", "tests/project/test_deploy.py"),
    **dict.fromkeys(
        [f"docs/operating/install.md-{number}" for number in range(5, 11)],
        ("it needs containers", "tests/project/test_deploy.py"),
    ),
    "docs/operating/performance.md-1": ("it measures for minutes", "tests/bench"),
    "docs/operating/plan-a-cluster.md-1": (
        "it runs in the folder of the sources",
        "tests/bench/test_planning.py",
    ),
    "docs/operating/postgresql.md-1": ("it serves until it is stopped", "tests/support/engines.py"),
    "docs/operating/sealed-log.md-2": (
        "it needs a checkpoint that was published and lost",
        "tests/sealed_log/test_published.py",
    ),
    "docs/operating/sealed-log.md-3": ("it serves until it is stopped", "tests/cli/test_log.py"),
    "docs/operating/monitor.md-1": (
        "it serves until it is stopped",
        "tests/observation/test_admin.py",
    ),
    "docs/operating/monitor.md-2": ("it shows until it is stopped", "tests/cli/test_top.py"),
    "docs/operating/upgrade.md-1": ("it builds a container", "tests/project/test_deploy.py"),
}
BLOCKS = [block for document in documents() for block in blocks_in(ROOT, document)]
TO_RUN = [
    block
    for block in BLOCKS
    if block.language in PROGRAMS and not {block.name, block.document} & set(CANNOT_RUN)
]
DOCUMENTS = list(dict.fromkeys(block.document for block in TO_RUN))
CLIENT = """import os
from ousel_client import Client
client = Client(os.environ["OUSEL_KEY"], base_url=os.environ["OUSEL_BASE_URL"])
"""
BROKEN = {
    "a call that is refused": ("sh", "curl -s http://127.0.0.1:8000/v1/nothing\n"),
    "a call without a key": ("sh", "curl -s http://127.0.0.1:8000/v1/me | cat\n"),
    "a command that is not there": ("sh", "ousel nonsense\n"),
    "a failure before a success": ("shell", "false\ntrue\n"),
    "a variable that nobody has set": ("sh", "echo $NOTHING_AT_ALL\n"),
    "a blank that nobody can fill in": ("sh", "echo xy_…\n"),
    "an import that fails": ("python", "from ousel_client import Klient\n"),
    "code that is none": ("python", "print('Hello'\n"),
    "a transfer to nobody": ("python", f'{CLIENT}client.transfers.send(to="@no_one", amount=1)\n'),
}


@pytest.fixture(scope="module")
def url(engines: Engines, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of a fresh database."""
    return engines.fresh_url("sqlite", tmp_path_factory.mktemp("blocks"))


@pytest.fixture(scope="module")
def running(url: str) -> Iterator[Server]:
    """A sandbox on that database."""
    with Server(url, "--sandbox") as server:
        yield server


@pytest.fixture(scope="module")
def reader(running: Server, url: str) -> Reader:
    """A reader who follows the documents on that server."""
    return Reader(running, url)


def test_every_block_is_run_or_listed() -> None:
    """Each block has a language. The list names blocks that exist, and tests that exist."""
    assert _of_unknown_language(BLOCKS) == []
    assert set(CANNOT_RUN) <= {block.name for block in BLOCKS} | {each.document for each in BLOCKS}
    assert [each for _, each in CANNOT_RUN.values() if not (ROOT / each).exists()] == []
    assert {block.language for block in TO_RUN} == {"sh", "python"}


def test_a_block_of_an_unknown_language_would_be_seen(tmp_path: Path) -> None:
    """Somebody has to decide whether it can run, so it is not skipped."""
    (tmp_path / "page.md").write_text("```bash\ntrue\n```\n\n```\ntrue\n```\n\n```sh\ntrue\n```\n")

    found = _of_unknown_language(list(blocks_in(tmp_path, "page.md")))

    assert [block.language for block in found] == ["bash", ""]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_the_blocks_of_a_document_work(document: str, reader: Reader, tmp_path: Path) -> None:
    """Each command and each program succeeds. An error answer counts as a failure."""
    blocks = [block for block in TO_RUN if block.document == document]

    assert reader.failures(blocks, tmp_path) == []


@pytest.mark.parametrize("fault", BROKEN)
def test_a_block_that_is_broken_would_be_seen(fault: str, reader: Reader, tmp_path: Path) -> None:
    """If one block of a document works and another does not, the second one is named."""
    language, text = BROKEN[fault]
    page = tmp_path / "page.md"
    step = indent(f"```{language}\n{text}```\n", "   ")
    page.write_text(f"# A page\n\n```sh\ntrue\n```\n\n1. A step:\n\n{step}")

    failures = reader.failures(list(blocks_in(tmp_path, "page.md")), tmp_path)

    assert [failure.partition(":")[0] for failure in failures] == ["page.md-2"]


def test_the_first_steps_of_the_portal_work(
    running: Server, reader: Reader, tmp_path: Path
) -> None:
    """What a new partner copies from there runs as it is, with a key in the variable."""
    page = asyncio.run(_first_steps(running))
    texts = [
        html.unescape(text)
        for text in re.findall(r"<pre[^>]*><code>(.*?)</code></pre>", page, re.DOTALL)
    ]
    blocks = [
        Block("first-steps", number, "sh" if text.startswith("curl ") else "python", text)
        for number, text in enumerate(texts, 1)
        if not text.startswith(f"{running.origin}/connect?")
    ]

    assert [block.language for block in blocks] == ["sh", "sh", "python", "sh"]
    assert reader.failures(blocks, tmp_path) == []


def _of_unknown_language(blocks: list[Block]) -> list[Block]:
    return [block for block in blocks if block.language not in PROGRAMS | TEXTS]


async def _first_steps(server: Server) -> str:
    """Return the page that a partner sees after creating an app."""
    headers = {"Accept": "text/html"}
    async with httpx2.AsyncClient(base_url=server.origin, headers=headers, verify=False) as client:
        visitor = Visitor(client)
        assert (await visitor.sign_up("newcomer")).status_code == 303
        app = await visitor.create_app()
        return (await visitor.get(f"{app}/first-steps")).text
