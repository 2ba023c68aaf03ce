"""A pytest plugin for mutation testing: each mutant is to meet the quickest tests first."""

import pytest
from hypothesis import HealthCheck, Phase, settings

# The same examples each time, and none made smaller: it only matters whether a test fails.
settings.register_profile(
    "mutants",
    database=None,
    deadline=None,
    derandomize=True,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=[HealthCheck.too_slow],  # a busy machine does not kill a mutant
)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run Hypothesis tests last, and keep each test's name where mutmut looks for it."""
    items.sort(key=lambda item: hasattr(getattr(item, "obj", None), "hypothesis"))
    for item in items:
        vars(item)["_nodeid"] = item.nodeid  # pytest had this attribute before 9.2
