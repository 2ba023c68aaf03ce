"""A pytest plugin for mutation testing: each mutant is to be killed quickly."""

import asyncio
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings

from ousel.database.schema import migrate
from tests.support.engines import use_template

TEMPLATE = Path(__file__).parents[2] / "template.db"  # in the folder that mutmut has made
TEST_SECONDS_MAX = 10.0  # most tests take a tenth of a second; some never end with some mutants

# The same examples each time, and none made smaller: it only matters whether a test fails.
settings.register_profile(
    "mutants",
    database=None,
    deadline=None,
    derandomize=True,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=[HealthCheck.too_slow],  # a busy machine does not kill a mutant
)


def pytest_sessionstart() -> None:
    """Migrate one database for all mutants: it takes longer than the tests of most mutants."""
    if not TEMPLATE.exists():
        asyncio.run(migrate(str(TEMPLATE)))
    use_template(TEMPLATE)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the quickest tests first, and keep each test's name where mutmut looks for it."""
    items.sort(key=_slowness)
    for item in items:
        if not _tries_many_examples(item):
            item.add_marker(pytest.mark.timeout(TEST_SECONDS_MAX))
        vars(item)["_nodeid"] = item.nodeid  # pytest had this attribute before 9.2


def _slowness(item: pytest.Item) -> tuple[bool, bool]:
    return _tries_many_examples(item), "database_url" in getattr(item, "fixturenames", ())


def _tries_many_examples(item: pytest.Item) -> bool:
    test = getattr(item, "obj", None)
    code = getattr(test, "__code__", None)
    return hasattr(test, "hypothesis") or "given" in getattr(code, "co_names", ())
