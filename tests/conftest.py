"""Fixtures for all tests: databases on both engines, servers, the portal and a browser."""

import gc
import os
import random
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from httpx2._config import DEFAULT_TIMEOUT_CONFIG
from hypothesis import settings

from ousel.database.addresses import open_database
from ousel.database.port import Database
from tests.faults.sizes import SEED
from tests.support.clock import ManualClock
from tests.support.engines import ENGINES, IS_CHECK, Engine, Engines
from tests.support.figures import Figure
from tests.support.passwords import hash_quickly
from tests.support.portal import Portal, open_portal
from tests.support.postgres_proxy import PostgresProxy
from tests.support.postgres_server import POSTGRES_BIN
from tests.support.raw_sql import RawSql
from tests.support.seeded import SeededDatabase, seed_database
from tests.support.server import Server, SharedServers
from tests.support.signals import signals_for_children
from tests.support.world import World

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from tests.support.browser_world import SampleWorld
    from tests.support.scheduling import JourneysTogether

# A busy machine is not a defect, so there is no deadline.
settings.register_profile("ousel", deadline=None, max_examples=10 if IS_CHECK else 50)
settings.load_profile("ousel")
DEFAULT_TIMEOUT_CONFIG.read = DEFAULT_TIMEOUT_CONFIG.connect = 60  # instead of 5 seconds
gc.disable()  # until all tests are collected: what is imported stays


SLOW_FOLDERS = ("citus", "cluster", "journeys", "packaging", "simulation")
WHOLLY_SLOW = "\npytestmark = pytest.mark.slow\n"
# These take longest, so they start first: started last, they would keep one core busy alone.
# The first ones wait a lot, so the others run beside them.
LONGEST_FIRST = (
    "tests/cluster/test_failover.py",
    "tests/packaging",
    "tests/journeys",
    "tests/faults/test_workers.py",
    "tests/bench",
    "tests/api/test_conformance.py",
    "tests/lab",
    "clients",
    "tests/project",
    "tests/faults",
    "tests/security",
    "tests/oauth",
    "tests/charges",
)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not import what would be left out if only quick tests run."""
    if config.getoption("markexpr") != "not slow":
        return None
    if collection_path.match("test_*.py"):
        return WHOLLY_SLOW in collection_path.read_text() or None
    is_left_out = collection_path.name in SLOW_FOLDERS and collection_path.parent.name == "tests"
    return is_left_out or None


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> "JourneysTogether | None":
    """Let all journeys share one server and one browser, where files are not divided."""
    from tests.support.scheduling import JourneysTogether

    return JourneysTogether(config, log) if config.getoption("dist") == "loadfile" else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Run slow tests first, those in the longest files before all, and some on one engine only."""
    needless = {item for item in items if _is_on_postgres(item) and _is_left_out_there(item)}
    config.hook.pytest_deselected(items=list(needless))
    items[:] = sorted((item for item in items if item not in needless), key=_position)
    for item in items:
        if item.path.parent.name in SLOW_FOLDERS and "slow" not in item.keywords:
            raise pytest.UsageError(f"{item.nodeid} is in a folder of slow tests, but not slow")


def _is_on_postgres(item: pytest.Item) -> bool:
    if "postgres_url" in getattr(item, "fixturenames", ()):
        return True
    chosen = getattr(item, "callspec", None)
    return chosen is not None and chosen.params.get("engine") == "postgresql"


def _is_left_out_there(item: pytest.Item) -> bool:
    return IS_CHECK or "one_engine" in item.keywords


def _position(item: pytest.Item) -> tuple[bool, int]:
    found = (index for index, path in enumerate(LONGEST_FIRST) if item.nodeid.startswith(path))
    return "slow" not in item.keywords, next(found, len(LONGEST_FIRST))


def pytest_collection_finish() -> None:
    """Collect garbage from now on, but seldom, and do not search the tests themselves for it."""
    gc.set_threshold(10_000)
    gc.freeze()
    gc.enable()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the figures that tests measured."""
    figures = [
        value
        for report in terminalreporter.getreports("passed")
        for name, value in report.user_properties
        if name == "figure"
    ]
    if figures:
        terminalreporter.section("figures")
        for figure in figures:
            terminalreporter.line(str(figure))


@pytest.fixture
def figure(record_property: Callable[[str, object], None]) -> Figure:
    """Prints a line of figures at the end of all tests."""
    return lambda line: record_property("figure", line)


@pytest.fixture
def chance() -> random.Random:
    """Decides when faults occur; the same for the same OUSEL_FAULTS_SEED."""
    print(f"OUSEL_FAULTS_SEED={SEED}")
    return random.Random(SEED)


@pytest.fixture
def usual_signals() -> Iterator[None]:
    """What a test starts takes signals as usual, also where the tests run under nohup."""
    with signals_for_children():
        yield


@pytest.fixture
def postgres_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    """PostgreSQL's own tools are at hand, in the server's version."""
    monkeypatch.setenv("PATH", f"{POSTGRES_BIN}{os.pathsep}{os.environ['PATH']}")


@pytest.fixture(scope="session")
def engines() -> Iterator[Engines]:
    """Makes fresh databases."""
    made = Engines()
    yield made
    made.close()


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> Engine:
    """Each engine in turn: both run the same tests."""
    chosen: Engine = request.param
    return chosen


@pytest.fixture
def database_url(engines: Engines, engine: Engine, tmp_path: Path) -> Iterator[str]:
    """The address of a fresh database with the current schema."""
    url = engines.fresh_url(engine, tmp_path)
    yield url
    engines.give_back(url)


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    """A fresh database, open."""
    async with open_database(database_url) as ready:
        yield ready


@pytest.fixture
async def seeded(database_url: str) -> SeededDatabase:
    """A fresh database with a partner and people."""
    return await seed_database(database_url)


@pytest.fixture
def clock() -> ManualClock:
    """A clock that stands still until the test moves it."""
    return ManualClock()


@pytest.fixture
async def portal(database_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Portal]:
    """The service inside the test's process, with a clock that stands still."""
    hash_quickly(monkeypatch)
    async with open_portal(database_url) as opened:
        yield opened


@pytest.fixture
async def raw_sql(database_url: str) -> AsyncIterator[RawSql]:
    """A second connection to the same database."""
    async with RawSql(database_url) as connection:
        yield connection


@pytest.fixture
def postgres_url(engines: Engines, tmp_path: Path) -> Iterator[str]:
    """A fresh PostgreSQL database."""
    url = engines.fresh_url("postgresql", tmp_path)
    yield url
    engines.give_back(url)


@pytest.fixture
async def proxy(postgres_url: str) -> AsyncIterator[PostgresProxy]:
    """A proxy to the fresh PostgreSQL database, whose connections can be cut."""
    async with PostgresProxy(postgres_url) as running:
        yield running


@pytest.fixture
def server(database_url: str) -> Iterator[Server]:
    """A server process on the same fresh database."""
    with Server(database_url) as running:
        yield running


@pytest.fixture(scope="session")
def shared_servers(
    engines: Engines, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SharedServers]:
    """Servers that run as long as the tests do."""
    servers = SharedServers(engines, tmp_path_factory.mktemp("shared"))
    yield servers
    servers.close()


@pytest.fixture
def shared_server(shared_servers: SharedServers, engine: Engine) -> Server:
    """The server for all tests that use only their own accounts."""
    return shared_servers.on(engine)


@pytest.fixture
async def world(shared_server: Server) -> AsyncIterator[World]:
    """The shared server with its database."""
    async with open_database(shared_server.database_url) as ready:
        yield World(shared_server, ready)


@pytest.fixture(scope="module")
def browser() -> "Iterator[Browser]":
    """A browser for all tests of a module; while it runs, this thread's event loop is taken."""
    from tests.support.browser import chromium

    with chromium() as running:
        yield running


@pytest.fixture(scope="module")
def browser_world(
    browser: "Browser", tmp_path_factory: pytest.TempPathFactory
) -> "Iterator[SampleWorld]":
    """A sandbox with sample data, a shop and a browser, for all tests of a module."""
    from tests.support.browser_world import SampleWorld, run_browser_world

    folder = tmp_path_factory.mktemp("browser")
    with run_browser_world(SampleWorld, browser, folder, "--sandbox") as running:
        yield running
