"""The path of a transfer is the one that the architecture page shows."""

import asyncio
import re
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import httpx2
import msgspec
import pytest

from ousel.app.background_tasks import BackgroundTasks
from ousel.app.ousel import Ousel
from ousel.database.port import Database
from ousel.http.connection import Connection, OwnServerState
from ousel.kernel.settings import Settings
from tests.support import accounts

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "ousel"
HOPS_MAX = 12

_CODE = re.compile("`([^`]+)`")
_ROW = re.compile(r"^\| (\d*) ?\| (`[^|]+`) in (`[^|]+`) \| .+ \|$", re.MULTILINE)


class Hop(msgspec.Struct, frozen=True):
    """A row of the table: its number, and the function as each engine has it."""

    number: str
    functions: frozenset[tuple[str, str]]  # file and qualified name


class Trace:
    """The functions of Ousel in the order of their first call, and the stack at one of them."""

    def __init__(self, stack_at: str) -> None:
        self.calls: list[tuple[str, str]] = []
        self.stack: list[tuple[str, str]] = []
        self._stack_at = stack_at

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        """Note a call."""
        function = _function(frame)
        if event != "call" or function is None:
            return
        if function not in self.calls:
            self.calls.append(function)
        if function[1] == self._stack_at and not self.stack:
            caller: FrameType | None = frame
            while caller is not None:
                self.stack = [each for each in [_function(caller)] if each] + self.stack
                caller = caller.f_back


def _function(frame: FrameType) -> tuple[str, str] | None:
    file = Path(frame.f_code.co_filename)
    if SOURCE not in file.parents:
        return None
    return str(file.relative_to(SOURCE)), frame.f_code.co_qualname


def table() -> list[Hop]:
    """Return the rows of the table in the architecture page."""
    text = (ROOT / "docs" / "architecture.md").read_text()
    hops = []
    for number, functions, files in _ROW.findall(text):
        names, paths = _CODE.findall(functions), _CODE.findall(files)
        pairs = zip(paths * len(names) if len(paths) == 1 else paths, names, strict=True)
        hops.append(Hop(number, frozenset(pairs)))
    return hops


@pytest.fixture(autouse=True)
def _without_background_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """No task runs meanwhile, because the tasks call some of the same functions."""
    monkeypatch.setattr(BackgroundTasks, "_schedule", lambda _: [])


async def traced_transfer(database: Database, database_url: str) -> Trace:
    """Send one transfer through a real socket, and return what it called."""
    partner = await accounts.partner(database, "shop", "10")
    await accounts.person(database, "ada")
    trace = Trace("write_movements")
    ousel = Ousel(Settings(database_url=database_url))
    loop = asyncio.get_running_loop()
    async with ousel.running():
        server = await loop.create_server(
            lambda: Connection(ousel, OwnServerState(), 5), "127.0.0.1", 0
        )
        port = server.sockets[0].getsockname()[1]
        headers = {"Authorization": f"Bearer {partner.key}"}
        async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}/v1") as client:
            body = {"to": "@ada", "amount": 1.5}
            await client.post("/transfers", json=body, headers=headers)  # fills the caches
            sys.setprofile(trace)
            try:
                answer = await client.post("/transfers", json=body, headers=headers)
            finally:
                sys.setprofile(None)
        server.close()
        await server.wait_closed()
    assert answer.status_code == 201, answer.text
    return trace


async def test_a_transfer_takes_the_path_that_is_shown(
    database: Database, database_url: str
) -> None:
    """Each function of the table is called, in its order, and passes the posting on."""
    hops = table()
    trace = await traced_transfer(database, database_url)

    steps = [
        min((trace.calls.index(each) for each in hop.functions if each in trace.calls), default=-1)
        for hop in hops
    ]
    missing = [hop for hop, step in zip(hops, steps, strict=True) if step < 0]
    assert not missing
    assert steps == sorted(steps)
    assert [hop.number for hop in hops if hop.number] == [
        str(number) for number in range(1, HOPS_MAX + 1)
    ]


async def test_nothing_on_the_way_is_left_out(database: Database, database_url: str) -> None:
    """When the rows are written, every public function on the stack is one of the table's."""
    shown = {function for hop in table() for function in hop.functions}
    trace = await traced_transfer(database, database_url)

    public = [each for each in trace.stack if not each[1].split(".")[-1].startswith(("_", "<"))]
    assert set(public) <= shown
    assert {file for file, _ in trace.stack} <= {file for file, _ in shown}
    assert len(public) > 3
