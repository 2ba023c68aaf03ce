"""What the documents say, held against what is there: each function returns what is wrong."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
from typer.main import get_command

from ousel.app import Ousel
from ousel.cli.main import commands
from ousel.docs.documents import anchor_of
from ousel.kernel.errors import all_refusals
from ousel.kernel.settings import Settings

ROOT = Path(__file__).parents[2]
FOLDERS = ("bench", "clients", "deploy", "docs", "examples")
NO_TARGETS = {"sure", "it"}  # as one makes sure, and makes it


def documents(root: Path = ROOT) -> list[str]:
    """Return the path of every document below this folder."""
    found = [
        *root.glob("*.md"),
        *(each for name in FOLDERS for each in (root / name).rglob("*.md")),
    ]
    return sorted(str(path.relative_to(root)) for path in found)


def wrong_settings(text: str) -> set[tuple[str, str]]:
    """Return rows of a table of settings, each with its default, that are wrong or missing."""
    rows = set(re.findall(r"^\| `(OUSEL_[A-Z_]+)` \| `([^`]+)` \|", text, re.MULTILINE))
    expected = {
        (f"OUSEL_{name.upper()}", _as_written(value))
        for name, value in msgspec.structs.asdict(Settings()).items()
        if name != "rate_limit"
    }
    return rows ^ (expected | {("OUSEL_RATE_LIMIT", "100/second")})


def wrong_targets(text: str) -> set[str]:
    """Return what a document says to make and no rule of the Makefile makes."""
    named = set(re.findall(r"\bmake ([a-z]+)\b", text))
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    return named - NO_TARGETS - targets


def wrong_commands(text: str) -> set[str]:
    """Return commands that a table of them lacks, or has although they do not exist."""
    named = set(re.findall(r"^\| `ousel ([a-z ]+)` \|", text, re.MULTILINE))
    return named ^ {name for name, _ in _commands(get_command(commands))}


def commands_without(option: str) -> set[str]:
    """Return the commands that do not take this option."""
    return {
        name
        for name, command in _commands(get_command(commands))
        if not any(option in parameter.opts for parameter in command.params)
    }


def wrong_command_lines(text: str) -> set[str]:
    """Return the first words behind `ousel`, in lines of shell, that are no command."""
    names = {name.split()[0] for name, _ in _commands(get_command(commands))}
    return set(re.findall(r"^ *ousel ([a-z]+)", text, re.MULTILINE)) - names


def wrong_endpoints(text: str) -> set[str]:
    """Return methods with paths, as a document names endpoints, that Ousel does not serve."""
    named = re.findall(r"`((?:GET|POST|PUT|PATCH|DELETE) /[^`\s]*)", text)
    return {re.sub(r":(\w+)", r"{\1}", each.replace(" /v1/", " /")) for each in named} - _served()


def wrong_codes(text: str) -> set[str]:
    """Return error codes, as a document names them behind their status, that are not so."""
    codes = {f"{refusal.status} {refusal.code}" for refusal in all_refusals()}
    named = re.findall(r"`([45]\d\d [a-z_]+)`", text.replace("` `", " "))
    return set(named) - codes


def missing_rooms(drawing: str) -> set[str]:
    """Return packages of the house that do not stand in the drawing of its floors."""
    rooms = {
        path.name.removesuffix(".py")
        for path in (ROOT / "src" / "ousel").iterdir()
        if path.is_dir() or path.suffix == ".py"
    }
    floors = re.findall(r"^(\w+(?: · \w+)*)  ", drawing.split("```")[1], re.MULTILINE)
    drawn = {room for floor in floors for room in floor.split(" · ")}
    return rooms - drawn - {"__pycache__", "__init__", "__main__"}


def broken_links(root: Path) -> list[str]:
    """Return each link between documents whose file, folder or heading does not exist."""
    return [
        f"{document}: {target}"
        for document in documents(root)
        for target in re.findall(r"\]\(([^)\s:]+)\)", (root / document).read_text())
        if not _leads_somewhere(root / document, target)
    ]


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


def _commands(command: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each command that does something, with its full name."""
    for name, child in getattr(command, "commands", {}).items():
        if hasattr(child, "commands"):
            yield from _commands(child, f"{prefix}{name} ")
        else:
            yield f"{prefix}{name}", child


def _as_written(value: object) -> str:
    """Return a setting's value as an operator writes it."""
    if value is None:
        return "off"
    if isinstance(value, tuple):  # of networks, each of one address
        return ", ".join(str(network.network_address) for network in value)
    return str(value).lower() if isinstance(value, bool) else str(value)
