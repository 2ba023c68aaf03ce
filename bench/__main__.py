"""`python -m bench`: measure every case in turn, round after round, and print the ratios."""

import contextlib
import sys
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console

from bench import growth, publishing, results, tables
from bench.cases import Case, Sample, Stage
from bench.postgres import Postgres
from ousel.workload.processes import Failure

FOLDER: Final = Path(".build/bench")
SECONDS: Final = 1.0
ROUNDS: Final = 7

_console = Console(stderr=True)


def main(
    *,
    quick: Annotated[bool, typer.Option("--quick", help="One short round.")] = False,
    seconds: Annotated[float, typer.Option(help="How long a case runs.", min=1)] = SECONDS,
    rounds: Annotated[int, typer.Option(help="How often each case runs.", min=1)] = ROUNDS,
    only: Annotated[
        list[str] | None, typer.Option(help="Cases whose names contain this text, and pgbench.")
    ] = None,
    grow: Annotated[
        bool, typer.Option("--growth", help="Measure books that grow to ten million entries.")
    ] = False,
    publish: Annotated[
        bool, typer.Option("--publish", help="Put what was measured into the documentation.")
    ] = False,
) -> None:
    """Measure Ousel against pgbench, an empty endpoint and a plain FastAPI application."""
    if quick:
        seconds, rounds = 1.0, 1
    FOLDER.mkdir(parents=True, exist_ok=True)
    try:
        if grow:
            postgres = Postgres(FOLDER.resolve() / "postgresql")
            sizes = list(growth.measured(postgres, FOLDER.resolve(), seconds))
            tables.show_growth(sizes)
            if publish:
                publishing.publish_growth(sizes)
            return
        report = _report(only, seconds, rounds)
    except Failure as failure:
        sys.exit(f"bench: {failure}")
    tables.show(report)
    _console.print(f"Books proven. Written to {results.write(report, FOLDER)}.")
    if publish:
        publishing.publish(report)


def _report(only: list[str] | None, seconds: float, rounds: int) -> results.Report:
    with contextlib.ExitStack() as running:
        stage = Stage(FOLDER.resolve(), running)
        wanted = [case for case in stage.cases() if _is_wanted(case.name, only)]
        samples = _measured(wanted, seconds, rounds)
        stage.check()
        return results.report(stage, samples, seconds, rounds)


def _is_wanted(name: str, only: list[str] | None) -> bool:
    return not only or name.startswith(results.ANCHOR) or any(text in name for text in only)


def _measured(cases: list[Case], seconds: float, rounds: int) -> dict[str, list[Sample]]:
    """Run every case once a round, what is compared side by side."""
    samples: dict[str, list[Sample]] = {case.name: [] for case in cases}
    compared = {name: place for place, name in enumerate(results.SIDE_BY_SIDE)}
    ordered = sorted(cases, key=lambda case: compared.get(case.name, len(compared)))
    for number in range(rounds):
        for case in ordered:
            sample = case.run(seconds)
            samples[case.name].append(sample)
            _console.print(
                f"round {number + 1} of {rounds}: {case.name}: {sample.tally.rate:,.0f}/s"
            )
    return samples


if __name__ == "__main__":
    typer.run(main)
