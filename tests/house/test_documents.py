"""The documents say what is true: settings, rooms, commands."""

import re
from pathlib import Path

import msgspec
import pytest
from typer.main import get_command

from ousel.cli.main import commands
from ousel.kernel.settings import Settings

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def test_the_readme_names_every_setting_with_its_default() -> None:
    """Each field of the settings has a row in the README's table, and there are no other rows."""
    rows = dict(re.findall(r"^\| `(OUSEL_[A-Z_]+)` \| `([^`]+)` \|", README, re.MULTILINE))
    default = Settings()
    expected = {
        f"OUSEL_{name.upper()}": str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in msgspec.structs.asdict(default).items()
        if name != "rate_limit"
    }
    assert rows == expected | {"OUSEL_RATE_LIMIT": "100/second"}


@pytest.mark.parametrize("document", ["README.md", "CONTRIBUTING.md"])
def test_every_make_target_that_a_document_names_exists(document: str) -> None:
    """`make something` in a document is a target of the Makefile."""
    named = set(re.findall(r"\bmake ([a-z]+)\b", (ROOT / document).read_text()))
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert named - {"sure", "it"} <= targets


def test_every_command_that_the_readme_names_exists() -> None:
    """`ousel something` in the README is a command."""
    known = get_command(commands)
    names = set(getattr(known, "commands", {}))
    assert set(re.findall(r"^ousel ([a-z]+)", README, re.MULTILINE)) <= names


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
