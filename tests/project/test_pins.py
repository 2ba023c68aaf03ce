"""Every dependency is bounded and pinned, for Python and for Node.js."""

import json
import re
import tomllib
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.node import PINS, ROOT

LOCKS = ROOT / "requirements"
CLIENT = ROOT / "clients" / "python" / "pyproject.toml"
NODE_PROJECTS = pytest.mark.parametrize(
    "folder", [PINS, ROOT / "clients" / "typescript"], ids=lambda folder: str(folder.name)
)


def test_dependencies_are_bounded_on_both_sides() -> None:
    """Each dependency names the oldest version that works and the next that may not."""
    declared = list(_declared())

    assert declared
    assert _unbounded(declared) == []
    assert _unbounded([Requirement("a"), Requirement("b>=1"), Requirement("c<2")]) == [
        "a",
        "b",
        "c",
    ]


@pytest.mark.slow
@pytest.mark.parametrize("lock", sorted(LOCKS.glob("*.txt")), ids=lambda lock: lock.stem)
def test_pins_lie_within_the_bounds(lock: Path) -> None:
    """No lock file pins a version that a declared dependency excludes; one that did is reported."""
    pinned = _pinned(lock.read_text())

    assert pinned
    assert _outside(pinned) == []
    assert _outside(pinned | {"typer": "0.1.0"}) == ["typer"]


@pytest.mark.slow
def test_extras_are_pinned_too() -> None:
    """If a pinned package needs another one with an extra, the lock file names the extra.

    Otherwise pip asks for the newest version, and fails when that is no longer the pinned one.
    """
    for lock in LOCKS.glob("*.txt"):
        assert _lacking_extras(lock.read_text()) == [], lock.name
    tests = (LOCKS / "test.txt").read_text()
    assert _lacking_extras(tests.replace("coverage[toml]", "coverage")) == ["coverage[toml]"]


def test_everything_that_is_declared_is_pinned() -> None:
    """Some lock file pins each declared dependency, except our own client."""
    pinned = {name for lock in LOCKS.glob("*.txt") for name in _pinned(lock.read_text())}
    declared = {canonicalize_name(each.name) for each in _declared()}

    assert declared - pinned == {"ousel-client"}


@NODE_PROJECTS
def test_versions_are_exact(folder: Path) -> None:
    """Each package that is named has one version, not a range; a range would be seen."""
    described = json.loads((folder / "package.json").read_text())
    named: dict[str, str] = described.get("dependencies") or described["devDependencies"]

    assert named
    assert _inexact(named) == []
    assert _inexact(named | {"loose": "^1.2.3", "looser": "latest"}) == ["loose", "looser"]


@NODE_PROJECTS
def test_the_lock_file_has_digests_and_no_addresses(folder: Path) -> None:
    """Each package has its digest, and is fetched from whatever registry the machine knows."""
    packages: dict[str, Any] = json.loads((folder / "package-lock.json").read_text())["packages"]
    del packages[""]  # ourselves
    spoilt = {
        "bare": {},
        "old": {"integrity": "sha1-x"},
        "fixed": {"integrity": "sha512-x", "resolved": "https://x.example"},
    }

    assert packages
    assert _unpinned(packages) == []
    assert _unpinned(packages | spoilt) == list(spoilt)


@NODE_PROJECTS
def test_a_new_lock_file_would_have_no_addresses_either(folder: Path) -> None:
    """Whoever pins anew gets exact versions without addresses, and runs no package's scripts."""
    settings = set((folder / ".npmrc").read_text().split())

    assert {
        "ignore-scripts=true",
        "omit-lockfile-registry-resolved=true",
        "save-exact=true",
    } <= settings


def test_the_typescript_client_depends_on_nothing() -> None:
    """Its only package is TypeScript, in the version that its tests use too."""
    described = json.loads((ROOT / "clients" / "typescript" / "package.json").read_text())
    tools = json.loads((PINS / "package.json").read_text())["dependencies"]

    assert "dependencies" not in described
    assert described["devDependencies"] == {"typescript": tools["typescript"]}


def _inexact(named: dict[str, str]) -> list[str]:
    return [name for name, each in named.items() if not re.fullmatch(r"\d+\.\d+\.\d+", each)]


def _unpinned(packages: dict[str, Any]) -> list[str]:
    return [
        name
        for name, each in packages.items()
        if not each.get("integrity", "").startswith("sha512-") or "resolved" in each
    ]


def _declared() -> Iterator[Requirement]:
    """Return the dependencies of both packages, of their builds, and of the lock files."""
    for path in (ROOT / "pyproject.toml", CLIENT):
        described = tomllib.loads(path.read_text())
        project = described["project"]
        yield from map(Requirement, described["build-system"]["requires"])
        yield from map(Requirement, project["dependencies"])
        for extra in project.get("optional-dependencies", {}).values():
            yield from map(Requirement, extra)
    for source in LOCKS.glob("*.in"):
        for line in source.read_text().splitlines():
            if not line.startswith("-c "):
                yield Requirement(line)


def _unbounded(declared: list[Requirement]) -> list[str]:
    return [
        each.name
        for each in declared
        if not {">=", "<"} <= {bound.operator for bound in each.specifier}
    ]


def _pinned(lock: str) -> dict[str, str]:
    return dict(re.findall(r"^([a-z0-9-]+)(?:\[[a-z,]+\])?==(\S+)", lock, re.MULTILINE))


def _requires(name: str) -> list[str]:
    try:
        return distribution(name).requires or []
    except PackageNotFoundError:  # the tests do not need what this lock file pins
        return []


def _lacking_extras(lock: str) -> list[str]:
    """Return what the installed packages of a lock need with extras that the lock does not name."""
    needed = [
        requirement
        for name in _pinned(lock)
        for requirement in map(Requirement, _requires(name))
        if requirement.extras and (requirement.marker is None or requirement.marker.evaluate())
    ]
    return [
        f"{each.name}[{','.join(sorted(each.extras))}]"
        for each in needed
        if not str(each.specifier).startswith("==")
        and f"\n{each.name}[{','.join(sorted(each.extras))}]==" not in f"\n{lock}"
    ]


def _outside(pinned: dict[str, str]) -> list[str]:
    return sorted(
        {
            name
            for each in _declared()
            if (name := canonicalize_name(each.name)) in pinned
            and not each.specifier.contains(pinned[name])
        }
    )
