"""The page about performance says what was measured, and nothing else."""

from pathlib import Path

import msgspec
import pytest

from bench import headline, publishing, tables, targets
from bench.cases import Sample
from bench.growth import GrowthReport, SizeResult
from bench.mixed import MixedResult
from bench.pages import PageResult
from bench.results import UNKNOWN_COMMIT, Report, checked_out_commit
from bench.targets import Target
from ousel.workload.load import LoadResult


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


def test_the_page_says_when_and_at_which_commit_each_table_was_measured() -> None:
    """The cases and the growing ledgers come from two runs, so both are dated."""
    report = msgspec.json.decode(publishing.REPORT.read_bytes(), type=Report)
    growth = msgspec.json.decode(publishing.GROWTH.read_bytes(), type=GrowthReport)

    for each in (report, growth):
        assert each.commit
        assert f"{each.measured_at}, at commit {each.commit}" in publishing.page()
        assert each.remark in publishing.page()


def test_a_published_run_names_its_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Results are stored with the commit of the clone, or as of an unknown one."""
    monkeypatch.setattr(publishing, "GROWTH", tmp_path / "growth.json")
    monkeypatch.setattr(publishing, "PAGE", tmp_path / "page.md")
    size = SizeResult("sqlite", entries=2, transfers=1, balances=1, pages=1, verified=1)

    publishing.publish_growth([size])
    monkeypatch.setenv("PATH", str(tmp_path))  # without git

    stored = msgspec.json.decode(publishing.GROWTH.read_bytes(), type=GrowthReport)
    assert stored.sizes == [size]
    assert stored.measured_at in publishing.PAGE.read_text()
    assert stored.commit
    assert checked_out_commit() == UNKNOWN_COMMIT


def test_a_target_is_met_at_its_bound() -> None:
    """The bound itself meets the target, for "at least" and for "at most"."""
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


def test_what_was_not_measured_is_left_out_of_the_page() -> None:
    """Sections and figures about pages and mixed load appear once they were measured."""
    report = msgspec.json.decode(publishing.REPORT.read_bytes(), type=Report)
    bare = msgspec.structs.replace(report, pages=[], mixed=[])
    full = msgspec.structs.replace(report, pages=PAGES, mixed=MIXED)

    assert "slowest" not in headline.table(bare)
    assert "| The slowest page of the portal: median | 3.0 ms | 2.0 ms |" in headline.table(full)
    assert "| The slowest read while money moves: p99 | 9 ms | 8 ms |" in headline.table(full)
    assert list(tables.page_rows(full)) == [("`/activity`", "3.00", "2.00", "26.0", "20.0")]
    assert [row[-1] for row in tables.mixed_rows(full)] == ["4.5", "4.0", "10.0"]


def test_targets_name_the_worst_page_and_the_worst_read() -> None:
    """The slowest page, the largest page and the reads that suffer most count, not transfers."""
    [slowest, largest] = targets.page_targets(PAGES)
    ratios = [target.value for target in targets.mixed_targets(MIXED)]

    assert (slowest.value, slowest.is_met) == (3.0, True)
    assert (largest.value, largest.is_met) == (46.0, True)
    assert ratios == [4.5, 12.0, 4.0, 11.0]


def test_a_ratio_to_pgbench_is_the_same_in_all_tables() -> None:
    """The target and the table of results both divide the medians."""
    report = msgspec.json.decode(publishing.REPORT.read_bytes(), type=Report)
    ratios = {f"{each.name}: rate, relative to pgbench": each.ratio for each in report.results}
    shown = {each.name: each.value for each in report.targets if each.name in ratios}
    samples = {
        "postgresql hot 256": _samples(10, 20, 60),
        "pgbench tpcb-like 8": _samples(10, 4, 20),
    }
    [target] = targets.case_targets(samples, "pgbench tpcb-like 8")

    assert shown == {name: ratios[name] for name in shown}
    assert len(shown) == 4
    assert target.value == 2


def test_other_ratios_compare_the_rounds() -> None:
    """Cases that run one after the other are compared within each round."""
    samples = {
        "sqlite charge 256": _samples(10, 20, 60),
        "empty endpoint 256": _samples(10, 4, 20),
    }

    assert [target.value for target in targets.case_targets(samples, "")] == [3]


def test_empty_columns_are_left_out() -> None:
    """A column without any figure is not shown."""
    headings, rows = tables.filled_columns(("a", "b", "c"), iter([("1", "", ""), ("2", "", "3")]))

    assert (headings, list(rows)) == (("a", "c"), [("1", ""), ("2", "3")])


def test_the_page_names_the_targets_that_were_not_measured() -> None:
    """A case with a target is either in the tables or named as not measured."""
    report = msgspec.json.decode(publishing.REPORT.read_bytes(), type=Report)
    missing = targets.unmeasured_cases({each.name for each in report.results})

    assert all(f"`{case}`" in publishing.page() for case in missing)
    assert targets.unmeasured_cases({*missing, *(each.name for each in report.results)}) == []


def _samples(*rates: float) -> list[Sample]:
    return [
        Sample(
            LoadResult(
                rate=rate, p50_seconds=0.1, p99_seconds=0.1, answers={200: 1}, client_cpu_seconds=0
            )
        )
        for rate in rates
    ]


PAGES = [
    PageResult(
        engine=engine,
        page="/activity",
        p50_milliseconds=milliseconds,
        page_bytes=26_000,
        asset_bytes=20_000,
    )
    for engine, milliseconds in (("postgresql", 3.0), ("sqlite", 2.0))
]
MIXED = [
    MixedResult(
        engine=engine,
        request=request,
        rate=100.0,
        alone_p50_milliseconds=1.0,
        alone_p99_milliseconds=2.0,
        p50_milliseconds=1.0,
        p99_milliseconds=p99,
        longest_milliseconds=p99 + 3,
    )
    for engine, request, p99 in (
        ("postgresql", "balance", 9.0),
        ("sqlite", "balance", 8.0),
        ("sqlite", "transfers", 20.0),
    )
]
