"""Compares the documents with the code. Each function returns what is wrong."""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import pairwise
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import msgspec

from ousel.app.ousel import Ousel
from ousel.cli.command_table import load_commands
from ousel.docs.documents import anchor_of
from ousel.kernel.errors import all_refusals
from ousel.kernel.settings import Settings, setting_names

ROOT = Path(__file__).parents[2]
FOLDERS = ("bench", "clients", "deploy", "docs", "examples")
FILES = {"ousel.db", "ousel.db.secret"}  # not modules
RECORD = re.compile(
    r"# \d+\. .+\n\n\d{4}-\d\d-\d\d\n\n## Context\n.+\n## Decision\n.+\n## Consequences\n.+\Z",
    re.DOTALL,
)
NO_TARGETS = {"sure", "it"}  # "make sure", "make it"


def documents(root: Path = ROOT) -> list[str]:
    """Return the path of every document below this folder."""
    found = [
        *root.glob("*.md"),
        *(each for name in FOLDERS for each in (root / name).rglob("*.md")),
    ]
    return sorted(str(path.relative_to(root)) for path in found)


# Defaults that operators write in another form than the settings contain.
CONVERTED = {
    "rate_limit": "100/second",
    "confirm_sending_over": "1000",
}


def wrong_settings(text: str) -> set[tuple[str, str]]:
    """Return the rows of a table of settings that are wrong or missing."""
    rows = set(re.findall(r"^\| `(OUSEL_[A-Z_]+)` \| `([^`]+)` \|", text, re.MULTILINE))
    expected = {
        (f"OUSEL_{name.upper()}", CONVERTED.get(name) or _as_written(value))
        for name, value in msgspec.structs.asdict(Settings()).items()
    }
    return rows ^ expected


def unknown_settings(text: str) -> set[str]:
    """Return the variables in a text that are none of Ousel's settings."""
    return set(re.findall(r"\bOUSEL_[A-Z_]+", text)) - setting_names()


def wrong_targets(text: str) -> set[str]:
    """Return the make targets that a document names and that do not exist."""
    named = set(re.findall(r"\bmake ([a-z-]+)\b", text))
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    return named - NO_TARGETS - targets


def wrong_log_lines(text: str) -> set[str]:
    """Return error lines of the log that the table lacks, or names although nothing writes them."""
    named = set(re.findall(r"^\| “([^”]+)” \|", text, re.MULTILINE))
    sources = (path.read_text() for path in (ROOT / "src" / "ousel").rglob("*.py"))
    calls = (re.findall(r'_log\.(?:error|exception)\(\s*"([^"]+)"', source) for source in sources)
    return named ^ {event for found in calls for event in found}


def wrong_commands(text: str) -> set[str]:
    """Return commands that the table lacks, or names although they do not exist."""
    named = set(re.findall(r"^\| `ousel ([a-z ]+)` \|", text, re.MULTILINE))
    return named ^ {name for name, _ in _commands(load_commands())}


def commands_without(option: str) -> set[str]:
    """Return the commands that do not take this option."""
    return {
        name
        for name, command in _commands(load_commands())
        if not any(option in parameter.opts for parameter in command.params)
    }


def wrong_command_lines(text: str) -> set[str]:
    """Return words after `ousel` in lines of shell that are not commands."""
    names = {name.split()[0] for name, _ in _commands(load_commands())}
    return set(re.findall(r"^ *ousel ([a-z]+)", text, re.MULTILINE)) - names


def wrong_endpoints(text: str) -> set[str]:
    """Return the endpoints that a document names and that Ousel does not serve."""
    named = re.findall(r"`((?:GET|POST|PUT|PATCH|DELETE) /[^`\s]*)", text)
    return {re.sub(r":(\w+)", r"{\1}", each.replace(" /v1/", " /")) for each in named} - _served()


def wrong_codes(text: str) -> set[str]:
    """Return error codes that a document names with a wrong status, or that do not exist."""
    codes = {f"{refusal.status} {refusal.code}" for refusal in all_refusals()}
    named = re.findall(r"`([45]\d\d [a-z_]+)`", text.replace("` `", " "))
    return set(named) - codes


def wrong_packages(text: str) -> set[str]:
    """Return packages that the list of layers lacks, or has although they do not exist."""
    packages = {
        path.name.removesuffix(".py")
        for path in (ROOT / "src" / "ousel").iterdir()
        if path.is_dir() or path.suffix == ".py"
    }
    layers = re.findall(r"^(\w+(?: · \w+)*)  ", text.split("```")[1], re.MULTILINE)
    listed = {package for layer in layers for package in layer.split(" · ")}
    return listed ^ (packages - {"__pycache__", "__init__", "__main__"})


def wrong_names(text: str) -> set[str]:
    """Return modules, classes and functions that a document names and that do not exist."""
    named = set(re.findall(r"`(ousel(?:\.\w+)+)`", text)) - FILES
    return {name for name in named if not _is_defined(name)}


def wrong_terms(text: str) -> set[str]:
    """Return terms of a glossary that are out of order, or do not name one place in the code."""
    terms: list[tuple[str, str]] = re.findall(r"^\| (\w[\w ]*) \| (.+) \|$", text, re.MULTILINE)[1:]
    unsorted = {later for (earlier, _), (later, _) in pairwise(terms) if earlier >= later}
    return unsorted | {term for term, meaning in terms if not _names_one_place(meaning)}


def missing_pages(contents: str) -> set[str]:
    """Return documents of the folder docs that a table of contents does not name."""
    pages = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}
    return pages - set(re.findall(r'= "([^"]+\.md)"', contents))


def wrong_records(root: Path) -> set[str]:
    """Return decision records with a wrong number or heading, or that the index does not list."""
    index = (root / "index.md").read_text()
    records = sorted(path.name for path in root.glob("0*.md"))
    return {
        name
        for number, name in enumerate(records, 1)
        if not name.startswith(f"{number:04}-")
        or not RECORD.match((root / name).read_text())
        or f"({name})" not in index
    }


def broken_links(root: Path) -> list[str]:
    """Return each link between documents whose file, folder or heading does not exist."""
    return [
        f"{document}: {target}"
        for document in documents(root)
        for target in re.findall(r"\]\(([^)\s:]+)\)", (root / document).read_text())
        if not _leads_somewhere(root / document, target)
    ]


def _is_defined(name: str) -> bool:
    try:
        resolve_name(name)
    except (ImportError, AttributeError):
        return False
    return True


def _names_one_place(meaning: str) -> bool:
    return re.fullmatch(r"[A-Z][^|]+\. \| `ousel(\.\w+)*`", meaning) is not None


def _leads_somewhere(document: Path, target: str) -> bool:
    path, _, anchor = target.partition("#")
    found = document.parent / path if path else document
    if not anchor:
        return found.exists()
    headings = re.findall(r"^#+ (.+)$", found.read_text(), re.MULTILINE) if found.is_file() else []
    return anchor in map(anchor_of, headings)


@cache
def _served() -> set[str]:
    ousel = Ousel(Settings(database_url="unopened.db", sandbox=True))
    base = ousel.settings.base_path
    return {f"{route.method} {route.path.removeprefix(base)}" for route in ousel.routes}


def _commands(commands: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each command with its full name, but not the groups of commands."""
    for name, child in commands.items():
        if hasattr(child, "commands"):
            yield from _commands(child.commands, f"{prefix}{name} ")
        else:
            yield f"{prefix}{name}", child


def _as_written(value: object) -> str:
    """Return a setting's value as an operator writes it."""
    if value is None:
        return "off"
    if isinstance(value, tuple):  # of networks, each of one address
        return ", ".join(str(network.network_address) for network in value)
    return str(value).lower() if isinstance(value, bool) else str(value)
