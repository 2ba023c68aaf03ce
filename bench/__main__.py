"""`python -m bench`: measures every case once per round, and prints the ratios."""

import contextlib
import sys
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console

from bench import growth, mixed, pages, publishing, results, tables, targets
from bench.cases import FULL, SMALL, BenchEnvironment, Case, Sample, Sizes
from bench.postgres import Postgres
from bench.processes import measure_commands
from ousel.cli.console import clean_up_on_signal
from ousel.workload.processes import MeasurementFailed

FOLDER: Final = Path(".build/bench")
SECONDS: Final = 1.0
QUICK_SECONDS: Final = 0.02
ROUNDS: Final = 7

_console = Console(stderr=True)


def main(
    *,
    quick: Annotated[bool, typer.Option("--quick", help="One short round on little data.")] = False,
    seconds: Annotated[float, typer.Option(help="Seconds per case and round.", min=1)] = SECONDS,
    rounds: Annotated[int, typer.Option(help="Number of rounds.", min=1)] = ROUNDS,
    only: Annotated[
        list[str] | None,
        typer.Option(
            help="Run pgbench and the cases whose names contain this text; 'pages' and 'mixed'"
            " select the measurements of pages and of mixed load."
        ),
    ] = None,
    grow_to: Annotated[
        int | None,
        typer.Option(
            "--growth", metavar="ENTRIES", help="Measure a ledger while it grows to this size."
        ),
    ] = None,
    publish: Annotated[
        bool, typer.Option("--publish", help="Write the results into the documentation.")
    ] = False,
) -> None:
    """Measure Ousel against pgbench, an empty endpoint and a plain FastAPI application."""
    if quick:
        seconds, rounds = QUICK_SECONDS, 1
    FOLDER.mkdir(parents=True, exist_ok=True)
    try:
        if grow_to is not None:
            postgres = Postgres(FOLDER.resolve() / "postgresql")
            sizes = list(growth.measure_growth(postgres, FOLDER.resolve(), seconds, grow_to))
            tables.show_growth(sizes)
            if publish:
                publishing.publish_growth(sizes)
            return
        report = _run_cases(SMALL if quick else FULL, only, seconds, rounds)
    except MeasurementFailed as failure:
        sys.exit(f"bench: {failure}")
    tables.show(report)
    _console.print(f"The ledgers are verified. Written to {results.write(report, FOLDER)}.")
    if publish:
        publishing.publish(report)


def _run_cases(sizes: Sizes, only: list[str] | None, seconds: float, rounds: int) -> results.Report:
    with contextlib.ExitStack() as running:
        environment = BenchEnvironment(FOLDER.resolve(), sizes, running)
        wanted = [case for case in environment.cases() if _is_wanted(case.name, only)]
        measured = results.Measurements(
            seconds=seconds,
            rounds=rounds,
            samples=_measure(wanted, seconds, rounds),
            pages=list(pages.measure_pages(environment, seconds))
            if _is_part(pages.PART, only)
            else [],
            mixed=list(mixed.measure_mixed_load(environment, seconds, rounds))
            if _is_part(mixed.PART, only)
            else [],
            commands=measure_commands(
                list(targets.COMMAND_SECONDS_MAX), environment.ledgers["sqlite"].url, sizes.starts
            ),
        )
        environment.verify()
        return results.make_report(environment, measured)


def _is_part(part: str, only: list[str] | None) -> bool:
    """Return whether this part of a run is wanted."""
    return not only or part in only


def _is_wanted(name: str, only: list[str] | None) -> bool:
    return not only or name.startswith(targets.BASELINE) or any(text in name for text in only)


def _measure(cases: list[Case], seconds: float, rounds: int) -> dict[str, list[Sample]]:
    """Run every case once per round; cases that are compared run next to each other."""
    samples: dict[str, list[Sample]] = {case.name: [] for case in cases}
    compared = {name: place for place, name in enumerate(targets.COMPARED_CASES)}
    ordered = sorted(cases, key=lambda case: compared.get(case.name, len(compared)))
    for number in range(rounds):
        for case in ordered:
            sample = case.run(seconds)
            samples[case.name].append(sample)
            _console.print(
                f"round {number + 1} of {rounds}: {case.name}: {sample.load_result.rate:,.0f}/s"
            )
    return samples


if __name__ == "__main__":
    with clean_up_on_signal():
        typer.run(main)
