"""What the tests let run on Node.js is pinned by version and digest, and by no address."""

import json
import re
from typing import Any

from tests.support.node import PINS


def test_versions_are_exact() -> None:
    """Each package that is named has one version, not a range."""
    named: dict[str, str] = json.loads((PINS / "package.json").read_text())["dependencies"]

    assert named
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", version) for version in named.values()), named


def test_the_lock_file_has_digests_and_no_addresses() -> None:
    """Each package has its digest, and is fetched from whatever registry the machine knows."""
    packages: dict[str, Any] = json.loads((PINS / "package-lock.json").read_text())["packages"]
    del packages[""]  # ourselves

    assert packages
    assert all(each["integrity"].startswith("sha512-") for each in packages.values())
    assert not any("resolved" in each for each in packages.values())


def test_a_new_lock_file_would_have_no_addresses_either() -> None:
    """Whoever pins anew gets exact versions without addresses, and runs no package's scripts."""
    settings = set((PINS / ".npmrc").read_text().split())

    assert {
        "ignore-scripts=true",
        "omit-lockfile-registry-resolved=true",
        "save-exact=true",
    } <= settings
