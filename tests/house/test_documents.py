"""The documents say what is true: settings, rooms, commands."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.main import get_command

from ousel.cli.main import commands
from ousel.kernel.settings import Settings

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("document", ["README.md", "docs/operating/configure.md"])
def test_every_setting_is_documented_with_its_default(document: str) -> None:
    """Each field of the settings has a row in the document's table, and there are no others."""
    text = (ROOT / document).read_text()
    rows = dict(re.findall(r"^\| `(OUSEL_[A-Z_]+)` \| `([^`]+)` \|", text, re.MULTILINE))
    default = Settings()
    expected = {
        f"OUSEL_{name.upper()}": _as_written(value)
        for name, value in msgspec.structs.asdict(default).items()
        if name != "rate_limit"
    }
    assert rows == expected | {"OUSEL_RATE_LIMIT": "100/second"}


def _as_written(value: object) -> str:
    """Return a setting's value as an operator writes it."""
    if value is None:
        return "off"
    if isinstance(value, tuple):  # of networks, each of one address
        return ", ".join(str(network.network_address) for network in value)
    return str(value).lower() if isinstance(value, bool) else str(value)


@pytest.mark.parametrize("document", ["README.md", "CONTRIBUTING.md"])
def test_every_make_target_that_a_document_names_exists(document: str) -> None:
    """`make something` in a document is a target of the Makefile."""
    named = set(re.findall(r"\bmake ([a-z]+)\b", (ROOT / document).read_text()))
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert named - {"sure", "it"} <= targets


def test_every_command_is_documented_and_no_other() -> None:
    """The table of commands names each command of the command line, and nothing else."""
    text = (ROOT / "docs" / "operating" / "commands.md").read_text()
    named = set(re.findall(r"^\| `ousel ([a-z ]+)` \|", text, re.MULTILINE))
    assert named == set(_names(get_command(commands)))


@pytest.mark.parametrize(
    "document", [str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md")]
)
def test_every_command_that_a_document_shows_exists(document: str) -> None:
    """A line of shell that begins with `ousel` begins with one of its commands."""
    names = {name.split()[0] for name in _names(get_command(commands))}
    shown = set(re.findall(r"^ *ousel ([a-z]+)", (ROOT / document).read_text(), re.MULTILINE))
    assert shown <= names


def _names(command: Any, prefix: str = "") -> Iterator[str]:
    """Yield the full name of each command that does something."""
    for name, child in getattr(command, "commands", {}).items():
        if hasattr(child, "commands"):
            yield from _names(child, f"{prefix}{name} ")
        else:
            yield f"{prefix}{name}"


def test_the_architecture_shows_every_room() -> None:
    """Each package of the house stands in the drawing of its floors."""
    drawing = (ROOT / "docs" / "architecture.md").read_text()
    rooms = {
        path.name.removesuffix(".py")
        for path in (ROOT / "src" / "ousel").iterdir()
        if path.is_dir() or path.suffix == ".py"
    }
    rooms -= {"__pycache__", "__init__", "__main__"}
    floors = drawing.split("```")[1]
    missing = {room for room in rooms if not re.search(rf"^.*\b{room}\b", floors, re.MULTILINE)}
    assert missing == set()


def test_links_between_documents_lead_somewhere() -> None:
    """Each relative link in a document names a file or folder that exists."""
    for document in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/**/*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", document.read_text()):
            assert (document.parent / target).exists(), f"{document.name} links to {target}"
