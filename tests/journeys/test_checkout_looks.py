"""Every state of the checkout, as it looks: readable for all, on any width, and light."""

from collections.abc import Iterator

import pytest

from tests.journeys.checkouts import Look
from tests.journeys.looks import Seen, Watch, too_heavy, too_wide, violations
from tests.journeys.stages import Stage, staged

pytestmark = pytest.mark.slow

WEIGHT_BYTES_MAX = 60_000
LONGEST = {"amount": 999_999_999.999999, "description": "W" * 500, "reference": "W" * 200}


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """One sandbox and one browser for all looks."""
    with staged(tmp_path_factory.mktemp("looks")) as ready:
        yield ready


@pytest.fixture(scope="module")
def seen(stage: Stage) -> dict[str, Seen]:
    """Each page, looked at once."""
    long = stage.charge(**LONGEST)["id"]
    looks = stage.looks | {
        "longest": Look("mary", f"/pay/{long}"),
        "longest-of-owner": Look("ada", f"/apps/{stage.people.app.id}/charges/{long}"),
    }
    found: dict[str, Seen] = {}
    for username in {look.username for look in looks.values()}:
        first = stage.page(username)
        for name, look in looks.items():
            if look.username == username:
                page = first.context.new_page()
                watch = Watch(page)
                page.goto(look.path)
                found[name] = watch.weighed()
                page.close()
        first.context.close()
    return found


def test_every_state_was_looked_at(seen: dict[str, Seen], stage: Stage) -> None:
    """No look was left out, and each loaded its page, style, scripts and icon over the wire."""
    assert set(seen) >= set(stage.looks)
    assert all(each.requests >= 3 for each in seen.values()), seen
    assert all(each.weight_bytes > 10_000 for each in seen.values()), seen


def test_every_state_is_accessible(seen: dict[str, Seen]) -> None:
    """Axe finds nothing to complain of, in light and in dark."""
    assert violations(seen) == {}


def test_no_state_scrolls_sideways(seen: dict[str, Seen]) -> None:
    """From the narrowest phone to a desk, with the longest texts too."""
    assert too_wide(seen) == {}


def test_no_state_breaks_its_own_policy(seen: dict[str, Seen]) -> None:
    """The browser has nothing to say, but that an unknown charge is not found."""
    complaints = {name: each.complaints for name, each in seen.items() if each.complaints}
    [not_found] = complaints.pop("unknown")

    assert "404" in not_found
    assert complaints == {}


def test_every_state_is_light(seen: dict[str, Seen]) -> None:
    """All that a page loads is under 60 KB before compression, in at most 8 requests."""
    assert too_heavy(seen, WEIGHT_BYTES_MAX) == {}
