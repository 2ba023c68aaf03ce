"""Servers on this machine are reached directly, whatever proxies the environment names."""

import os

import pytest

from ousel.cli.proxies import bypass_proxies_on_this_machine


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "127.0.0.1,localhost,::1"),
        ("example.com", "example.com,127.0.0.1,localhost,::1"),
        ("*", "*"),  # no proxy at all: a longer value would no longer mean that
    ],
)
def test_exceptions_that_are_set_stay(
    monkeypatch: pytest.MonkeyPatch, before: str, after: str
) -> None:
    """This machine is added to them."""
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.setenv(name, before)

    bypass_proxies_on_this_machine()

    assert (os.environ["no_proxy"], os.environ["NO_PROXY"]) == (after, after)
