"""What the documents say about the code is true, and the checks would find a mistake."""

import shutil
from collections.abc import Callable, Collection
from pathlib import Path

import pytest

from tests.project.documents import (
    FOLDERS,
    ROOT,
    broken_links,
    commands_without,
    documents,
    missing_pages,
    unknown_settings,
    wrong_codes,
    wrong_command_lines,
    wrong_commands,
    wrong_endpoints,
    wrong_log_lines,
    wrong_names,
    wrong_packages,
    wrong_records,
    wrong_settings,
    wrong_targets,
    wrong_terms,
)

CONFIGURE = "docs/operating/configure.md"
OPERATING = [each for each in documents() if each.startswith("docs/operating/")]
COMMANDS = "docs/operating/commands.md"
MONITOR = "docs/operating/monitor.md"
ARCHITECTURE = "docs/architecture.md"
GLOSSARY = "docs/glossary.md"
CONTENTS = "zensical.toml"
TERMS_MAX = 50
# A check, a document that passes it, and a mistake: words, and the words to put in their place.
FAULTS: dict[str, tuple[Callable[[str], Collection[object]], str, str, str]] = {
    "a setting without a row": (wrong_settings, CONFIGURE, "| `OUSEL_SANDBOX` |", "| sandbox |"),
    "a setting that is not there": (wrong_settings, CONFIGURE, "OUSEL_TRACING", "OUSEL_TRACKS"),
    "another default": (wrong_settings, CONFIGURE, "`10000`", "`20000`"),
    "a setting with a wrong name": (unknown_settings, "README.md", "_MAIL_URL", "_MAIL_ULR"),
    "a target that is not there": (wrong_targets, "CONTRIBUTING.md", "make fuzz", "make fizz"),
    "a command without a row": (wrong_commands, COMMANDS, "| `ousel key list` |", "| keys |"),
    "a command that is not there": (wrong_commands, COMMANDS, "ousel migrate`", "ousel move`"),
    "a line with a wrong command": (
        wrong_command_lines,
        "docs/operating/verify.md",
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
        MONITOR,
        "`503 queue_full`",
        "`503 queue_filled`",
    ),
    "an error with another status": (
        wrong_codes,
        "docs/how-to/retry-safely.md",
        "`409` `idempotency_conflict`",
        "`400` `idempotency_conflict`",
    ),
    "a log line without a row": (wrong_log_lines, MONITOR, "| “internal error” |", "| error |"),
    "a log line that nothing writes": (wrong_log_lines, MONITOR, "has stopped”", "has ended”"),
    "a package that is not listed": (wrong_packages, ARCHITECTURE, "\npartners ", "\nclients "),
    "a class that is not there": (wrong_names, GLOSSARY, "rules.Posting`", "rules.Wish`"),
    "a term out of order": (wrong_terms, GLOSSARY, "| account |", "| wallet |"),
    "a term without a place": (wrong_terms, GLOSSARY, "`ousel.ledger.rules.Posting`", "rules"),
    "a page without an entry": (missing_pages, CONTENTS, "how-to/go-live.md", "go-live.md"),
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


def test_every_setting_is_documented_with_its_default() -> None:
    """Each field of the settings has a row in the table, and there are no others."""
    assert wrong_settings((ROOT / CONFIGURE).read_text()) == set()


@pytest.mark.parametrize("document", ["README.md", *OPERATING])
def test_operators_are_told_only_of_settings_that_exist(document: str) -> None:
    """A variable in the README or a page for operators is a setting, or names a secret's file."""
    assert unknown_settings((ROOT / document).read_text()) == set()


@pytest.mark.parametrize("document", ["README.md", "CONTRIBUTING.md"])
def test_every_make_target_that_a_document_names_exists(document: str) -> None:
    """`make something` in a document is a target of the Makefile."""
    assert wrong_targets((ROOT / document).read_text()) == set()


def test_every_error_line_of_the_log_is_explained() -> None:
    """The table of error lines names each that the code writes, and no other."""
    assert wrong_log_lines((ROOT / MONITOR).read_text()) == set()


def test_every_command_is_documented_and_no_other() -> None:
    """The table of commands names each command of the command line, and nothing else."""
    assert wrong_commands((ROOT / COMMANDS).read_text()) == set()


def test_every_command_takes_a_database_and_prints_json() -> None:
    """As the page on commands says, except for those that need no database."""
    without = {"top", "receipt check", "log audit", "log witness"}
    assert commands_without("--database") == without
    assert commands_without("--json") == set()


@pytest.mark.slow
@pytest.mark.parametrize("document", documents())
def test_a_document_names_only_what_exists(document: str) -> None:
    """Commands, endpoints, error codes with their status, modules, classes and functions."""
    text = (ROOT / document).read_text()

    assert wrong_command_lines(text) == set()
    assert wrong_endpoints(text) == set()
    assert wrong_codes(text) == set()
    assert wrong_names(text) == set()


def test_the_architecture_lists_every_package() -> None:
    """The list of layers names each package, and nothing else."""
    assert wrong_packages((ROOT / ARCHITECTURE).read_text()) == set()


def test_the_glossary_is_short_and_sorted() -> None:
    """It has at most fifty terms in order, each with one sentence and one place in the code."""
    text = (ROOT / GLOSSARY).read_text()

    assert wrong_terms(text) == set()
    assert text.count("\n| ") - 1 <= TERMS_MAX


def test_the_contents_name_every_page() -> None:
    """Each page of the documentation is in the navigation."""
    assert missing_pages((ROOT / CONTENTS).read_text()) == set()


def test_decisions_are_numbered_dated_and_listed() -> None:
    """Each record has the next number, a date and three sections, and is in the index."""
    assert wrong_records(ROOT / "docs" / "decisions") == set()


def test_links_between_documents_lead_somewhere() -> None:
    """Each relative link in a document names a file, a folder or a heading that exists."""
    assert broken_links(ROOT) == []


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_a_document_with_a_fault_would_not_pass(fault: str) -> None:
    """The check passes the document, and fails it once the mistake is in it."""
    check, document, words, others = FAULTS[fault]
    text = (ROOT / document).read_text()
    assert not check(text)

    planted = text.replace(words, others)

    assert planted != text
    assert check(planted)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A folder with a copy of all documents and of the files that they link to."""
    for name in FOLDERS:
        shutil.copytree(ROOT / name, tmp_path / name)
    for path in (*ROOT.glob("*.md"), ROOT / "LICENSE"):
        shutil.copy(path, tmp_path)
    assert broken_links(tmp_path) == []
    return tmp_path


@pytest.mark.slow
def test_a_wrong_record_would_be_found(copy: Path) -> None:
    """A record without a date, and one with a number that is not the next, are named."""
    decisions = copy / "docs" / "decisions"
    first, *_, last = sorted(decisions.glob("0*.md"))
    first.write_text(first.read_text().replace("\n20", "\nabout 20", 1))
    moved = last.rename(decisions / f"0999-{last.name}")

    assert wrong_records(decisions) == {first.name, moved.name}


@pytest.mark.slow
def test_a_broken_link_would_be_found(copy: Path) -> None:
    """Links to pages, folders or headings that do not exist are named, and no others."""
    document = copy / "docs" / "tutorial" / "first-transfer.md"
    text = document.read_text()

    document.write_text("\n\n".join((text, *BROKEN_LINKS, *WHOLE_LINKS)))

    targets = [link.partition("(")[2].rstrip(")") for link in BROKEN_LINKS]
    assert broken_links(copy) == [f"docs/tutorial/first-transfer.md: {each}" for each in targets]


def test_pictures_are_readable_in_the_dark() -> None:
    """Each picture has colors of its own for the dark scheme, in which its page is dark."""
    pictures = sorted((ROOT / "docs").rglob("*.svg"))
    assert pictures
    for picture in pictures:
        assert "(prefers-color-scheme: dark)" in picture.read_text("utf-8"), picture.name
