"""Every state of the portal that takes steps to reach, as it looks: errors included."""

from collections.abc import Iterator

import pytest

from tests.journeys.looks import Seen, Watch, complaints, strange_hosts, too_wide, violations
from tests.journeys.stages import Stage, staged
from tests.journeys.states import FACTORED, MEMBERS, STRANGERS, State
from tests.journeys.visits import new_page, sign_up

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """One sandbox and one browser for all looks."""
    with staged(tmp_path_factory.mktemp("looks")) as ready:
        yield ready


@pytest.fixture(scope="module")
def seen(stage: Stage) -> dict[str, Seen]:
    """Each state, looked at once; with the steps that lead there it is not weighed."""
    return (
        _reached(stage, None, STRANGERS)
        | _reached(stage, "newcomer", MEMBERS)
        | _reached(stage, None, FACTORED)
    )


def _reached(stage: Stage, username: str | None, states: dict[str, State]) -> dict[str, Seen]:
    found = {}
    page = new_page(stage.browser, stage.server)
    if username is not None:
        sign_up(page, username)
    watch = Watch(page)
    for name, reach in states.items():
        reach(page)
        found[name] = watch.seen()
        watch.forget()
    page.context.close()
    return found


def test_every_state_was_looked_at(seen: dict[str, Seen]) -> None:
    """No state was left out."""
    assert set(seen) == {*STRANGERS, *MEMBERS, *FACTORED}


def test_every_state_is_accessible(seen: dict[str, Seen]) -> None:
    """Axe finds nothing to complain of, in light and in dark, error states included."""
    assert violations(seen) == {}


def test_no_state_scrolls_sideways(seen: dict[str, Seen]) -> None:
    """From the narrowest phone to a desk, with the longest names and addresses too."""
    assert too_wide(seen) == {}


def test_no_state_asks_anyone_else(seen: dict[str, Seen], stage: Stage) -> None:
    """Nothing is loaded from any host but the portal's own."""
    assert strange_hosts(seen, stage.server.origin) == {}
    assert all(each.hosts for each in seen.values())


def test_no_state_breaks_its_own_policy(seen: dict[str, Seen]) -> None:
    """The browser has nothing to say of any state: no blocked style, no failing script."""
    assert complaints(seen) == {}
