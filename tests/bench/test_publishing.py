"""The page about performance says what was measured, and nothing else."""

from pathlib import Path

import msgspec

from bench import publishing, tables
from bench.results import Report, Target


def test_the_page_is_made_from_what_was_measured() -> None:
    """The published page equals the one generated from the measurements."""
    assert publishing.PAGE.read_text() == publishing.page()


def test_the_chart_is_made_from_what_was_measured(tmp_path: Path) -> None:
    """The published chart equals the one generated from the measurements."""
    report = msgspec.json.decode(publishing.REPORT.read_bytes(), type=Report)
    tables.write_chart(report, tmp_path / "chart.svg")

    assert publishing.CHART.read_text() == (tmp_path / "chart.svg").read_text()


def test_no_word_of_the_page_is_left_to_fill_in() -> None:
    """Whatever the template asks for is there."""
    assert "{{" not in publishing.page()


def test_a_bar_holds_on_its_right_side() -> None:
    """At least is at least, at most is at most, and the bound itself is enough."""
    assert [Target("x", figure, "at least", 2).is_met for figure in (1.9, 2, 2.1)] == [
        False,
        True,
        True,
    ]
    assert [Target("x", figure, "at most", 2).is_met for figure in (1.9, 2, 2.1)] == [
        True,
        True,
        False,
    ]
