"""Every row of the threat model names tests that exist."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
THREATS = re.findall(
    r"^\| ([a-z].+?) \| .+ \| (`tests/.+`) \|$",
    (ROOT / "docs" / "concepts" / "threat-model.md").read_text(),
    re.MULTILINE,
)


def test_every_threat_has_tests_that_exist() -> None:
    """A row names one test or more, by its file, and each of them tests something."""
    assert len(THREATS) >= 25
    for threat, tests in THREATS:
        for file in re.findall(r"`([^`]+)`", tests):
            assert (ROOT / file).is_file(), (threat, file)
            assert re.search(r"^(async )?def test_", (ROOT / file).read_text(), re.MULTILINE)


def test_no_row_lacks_its_test() -> None:
    """Each row of the table of threats was read."""
    text = (ROOT / "docs" / "concepts" / "threat-model.md").read_text()
    table = text.partition("## Threats")[2].partition("\n## ")[0]
    rows = [line for line in table.splitlines() if line.startswith("| ")][1:]

    assert len(rows) == len(THREATS)
