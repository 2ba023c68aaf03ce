"""Every page of the portal, as it looks: readable for all, on any width, and light."""

from collections.abc import Callable, Iterator

import pytest

from tests.journeys.looks import (
    Seen,
    Watch,
    complaints,
    strange_hosts,
    too_heavy,
    too_wide,
    violations,
)
from tests.journeys.stages import Stage, staged
from tests.journeys.visits import new_page, sign_up, signed_in_page

pytestmark = pytest.mark.slow

WEIGHT_BYTES_MAX = 100_000

Tell = Callable[[str, object], None]


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """One sandbox and one browser for all looks."""
    with staged(tmp_path_factory.mktemp("looks")) as ready:
        yield ready


@pytest.fixture(scope="module")
def seen(stage: Stage) -> dict[str, Seen]:
    """Each page, looked at once."""
    _widen(stage)
    widest = {"activity-widest": "/activity", "movement-widest": "/activity/2"}
    return (
        _opened(stage, None, stage.people.open_paths())
        | _opened(stage, "ada", stage.people.paths())
        | _opened(stage, "wide", widest)
    )


def _widen(stage: Stage) -> None:
    """Let the longest texts and the largest amounts appear among those of everyday."""
    page = new_page(stage.browser, stage.server)
    sign_up(page, "wide", **{"Display name": "W" * 100})
    page.context.close()
    stage.call("POST", "/sandbox/fund", to="@wide", amount=999_999_999)
    stage.call("POST", "/transfers", to="@wide", amount=0.999999, note="W" * 500)


def _opened(stage: Stage, username: str | None, paths: dict[str, str]) -> dict[str, Seen]:
    """Look at pages that are reached by their address."""
    found = {}
    page = (
        new_page(stage.browser, stage.server)
        if username is None
        else signed_in_page(stage.browser, stage.server, username)
    )
    watch = Watch(page)
    for name, path in paths.items():
        page.goto("about:blank")
        watch.forget()
        page.goto(path)
        found[name] = watch.weighed()
    page.context.close()
    return found


def test_every_page_was_looked_at(seen: dict[str, Seen], stage: Stage) -> None:
    """No page was left out, and each loaded at least itself, its style, its script and icon."""
    assert set(seen) >= {*stage.people.open_paths(), *stage.people.paths()}
    assert all(each.requests >= 3 for each in seen.values()), seen


def test_every_page_is_accessible(seen: dict[str, Seen]) -> None:
    """Axe finds nothing to complain of, in light and in dark."""
    assert violations(seen) == {}


def test_no_page_scrolls_sideways(seen: dict[str, Seen]) -> None:
    """From the narrowest phone to a desk, with the longest names and amounts too."""
    assert too_wide(seen) == {}


def test_every_page_is_light(seen: dict[str, Seen], record_property: Tell) -> None:
    """A page weighs under 100 KB before compression, in at most 8 requests."""
    weights = {name: (each.weight_bytes, each.requests) for name, each in seen.items()}
    heaviest = sorted(weights.items(), key=lambda item: item[1], reverse=True)[:5]
    record_property("figure", f"heaviest pages, in bytes and requests: {dict(heaviest)}")
    assert too_heavy(seen, WEIGHT_BYTES_MAX) == {}


def test_no_page_asks_anyone_else(seen: dict[str, Seen], stage: Stage) -> None:
    """Nothing is loaded from any host but the portal's own."""
    assert strange_hosts(seen, stage.server.origin) == {}
    assert all(each.hosts for each in seen.values())


def test_no_page_breaks_its_own_policy(seen: dict[str, Seen]) -> None:
    """The browser has nothing to say of any page: no blocked style, no failing script."""
    assert complaints(seen) == {}
