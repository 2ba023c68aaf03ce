"""The documents say what is true: settings, rooms, commands, links; and a fault would be seen."""

import shutil
from collections.abc import Callable, Collection
from pathlib import Path

import pytest

from tests.house.documents import (
    FOLDERS,
    ROOT,
    broken_links,
    commands_without,
    documents,
    missing_rooms,
    wrong_codes,
    wrong_command_lines,
    wrong_commands,
    wrong_endpoints,
    wrong_settings,
    wrong_targets,
)

CONFIGURE = "docs/operating/configure.md"
COMMANDS = "docs/operating/commands.md"
HOUSE = "docs/architecture.md"
# A check, a document that passes it, and a fault in that: words and what stands in their place.
FAULTS: dict[str, tuple[Callable[[str], Collection[object]], str, str, str]] = {
    "a setting without a row": (wrong_settings, CONFIGURE, "| `OUSEL_SANDBOX` |", "| sandbox |"),
    "a setting that is not there": (wrong_settings, "README.md", "OUSEL_TRACING", "OUSEL_TRACKS"),
    "another default": (wrong_settings, "README.md", "`10000`", "`20000`"),
    "a target that is not there": (wrong_targets, "CONTRIBUTING.md", "make fuzz", "make fizz"),
    "a command without a row": (wrong_commands, COMMANDS, "| `ousel key list` |", "| keys |"),
    "a command that is not there": (wrong_commands, COMMANDS, "ousel migrate`", "ousel move`"),
    "a line with a wrong command": (
        wrong_command_lines,
        "docs/operating/prove.md",
        "ousel verify\n",
        "ousel prove\n",
    ),
    "an endpoint that is not there": (
        wrong_endpoints,
        "docs/how-to/go-live.md",
        "`GET /charges/:id`",
        "`GET /charges/:name`",
    ),
    "an endpoint with another method": (
        wrong_endpoints,
        "docs/reference/rules.md",
        "`POST /sandbox/fund`",
        "`PUT /sandbox/fund`",
    ),
    "an error that is not there": (
        wrong_codes,
        "docs/operating/watch.md",
        "`503 queue_full`",
        "`503 queue_filled`",
    ),
    "an error with another status": (
        wrong_codes,
        "docs/how-to/retry-safely.md",
        "`409` `idempotency_conflict`",
        "`400` `idempotency_conflict`",
    ),
    "a room that is not drawn": (missing_rooms, HOUSE, "\npartners ", "\ncompanions "),
}
BROKEN_LINKS = (
    "[nothing](nothing.md)",
    "[nothing](../nothing.md)",
    "[no heading](first-charge.md#nothing)",
    "[no heading of this page](#nothing)",
    "[no page with this heading](nothing.md#create-it)",
)
WHOLE_LINKS = (
    "[a page](first-charge.md)",
    "[a folder](../decisions)",
    "[a heading](first-charge.md#create-it)",
    "[a heading of this page](#who-am-i)",
    "[elsewhere](https://elsewhere.example/nothing.md)",
)


@pytest.mark.parametrize("document", ["README.md", CONFIGURE])
def test_every_setting_is_documented_with_its_default(document: str) -> None:
    """Each field of the settings has a row in the document's table, and there are no others."""
    assert wrong_settings((ROOT / document).read_text()) == set()


@pytest.mark.parametrize("document", ["README.md", "CONTRIBUTING.md"])
def test_every_make_target_that_a_document_names_exists(document: str) -> None:
    """`make something` in a document is a target of the Makefile."""
    assert wrong_targets((ROOT / document).read_text()) == set()


def test_every_command_is_documented_and_no_other() -> None:
    """The table of commands names each command of the command line, and nothing else."""
    assert wrong_commands((ROOT / COMMANDS).read_text()) == set()


def test_every_command_takes_a_database_and_prints_json() -> None:
    """As the page on commands says, with its one exception."""
    assert commands_without("--database") == {"top"}
    assert commands_without("--json") == set()


@pytest.mark.parametrize("document", documents())
def test_whatever_a_document_names_exists(document: str) -> None:
    """A command behind `ousel`, a path behind its method, an error code behind its status."""
    text = (ROOT / document).read_text()

    assert wrong_command_lines(text) == set()
    assert wrong_endpoints(text) == set()
    assert wrong_codes(text) == set()


def test_the_architecture_shows_every_room() -> None:
    """Each package of the house stands in the drawing of its floors."""
    assert missing_rooms((ROOT / HOUSE).read_text()) == set()


def test_links_between_documents_lead_somewhere() -> None:
    """Each relative link in a document names a file, a folder or a heading that exists."""
    assert broken_links(ROOT) == []


@pytest.mark.parametrize("fault", FAULTS)
def test_a_document_with_a_fault_would_not_pass(fault: str) -> None:
    """What is planted in a copy of a document that passes is found, and it alone is the reason."""
    check, document, words, others = FAULTS[fault]
    text = (ROOT / document).read_text()
    assert not check(text)

    planted = text.replace(words, others)

    assert planted != text
    assert check(planted)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A folder with a copy of all documents, and of what they link to."""
    for name in FOLDERS:
        shutil.copytree(ROOT / name, tmp_path / name)
    for path in (*ROOT.glob("*.md"), ROOT / "LICENSE"):
        shutil.copy(path, tmp_path)
    assert broken_links(tmp_path) == []
    return tmp_path


def test_a_broken_link_would_be_found(copy: Path) -> None:
    """A page, a folder or a heading that is not there is named; what is there is not."""
    document = copy / "docs" / "tutorial" / "first-transfer.md"
    text = document.read_text()

    document.write_text("\n\n".join((text, *BROKEN_LINKS, *WHOLE_LINKS)))

    targets = [link.partition("(")[2].rstrip(")") for link in BROKEN_LINKS]
    assert broken_links(copy) == [f"docs/tutorial/first-transfer.md: {each}" for each in targets]
