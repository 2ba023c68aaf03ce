"""What the tests let run on Node.js is pinned by version and digest, and by no address."""

import json
import re
from typing import Any

from tests.support.node import PINS


def test_versions_are_exact() -> None:
    """Each package that is named has one version, not a range; a range would be seen."""
    named: dict[str, str] = json.loads((PINS / "package.json").read_text())["dependencies"]

    assert named
    assert _inexact(named) == []
    assert _inexact(named | {"loose": "^1.2.3", "looser": "latest"}) == ["loose", "looser"]


def test_the_lock_file_has_digests_and_no_addresses() -> None:
    """Each package has its digest, and is fetched from whatever registry the machine knows."""
    packages: dict[str, Any] = json.loads((PINS / "package-lock.json").read_text())["packages"]
    del packages[""]  # ourselves
    spoilt = {
        "bare": {},
        "old": {"integrity": "sha1-x"},
        "fixed": {"integrity": "sha512-x", "resolved": "https://x.example"},
    }

    assert packages
    assert _unpinned(packages) == []
    assert _unpinned(packages | spoilt) == list(spoilt)


def test_a_new_lock_file_would_have_no_addresses_either() -> None:
    """Whoever pins anew gets exact versions without addresses, and runs no package's scripts."""
    settings = set((PINS / ".npmrc").read_text().split())

    assert {
        "ignore-scripts=true",
        "omit-lockfile-registry-resolved=true",
        "save-exact=true",
    } <= settings


def _inexact(named: dict[str, str]) -> list[str]:
    return [name for name, each in named.items() if not re.fullmatch(r"\d+\.\d+\.\d+", each)]


def _unpinned(packages: dict[str, Any]) -> list[str]:
    return [
        name
        for name, each in packages.items()
        if not each.get("integrity", "").startswith("sha512-") or "resolved" in each
    ]
