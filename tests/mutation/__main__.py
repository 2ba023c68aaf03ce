"""Compares the mutants that survived with those that survivors.toml explains.

Run it where mutmut has run. It fails if a survivor is not explained, if an explained mutant was
killed or no longer exists, or if tests killed fewer than 95 % of all mutants.
"""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
MUTANTS = ROOT / "mutants" / "src"
EXPLAINED = Path(__file__).with_name("survivors.toml")
MUTMUT = Path(sys.executable).with_name("mutmut")

KILLED = {1, 3}  # tests failed, or pytest did
TIMED_OUT = {24, 36, 152, 255, -24}
PERCENT_MIN = 95


def main() -> str | None:
    """Print the figures of each module; return what is wrong, or None."""
    survivors: set[tuple[str, str]] = set()
    mutants = survived = 0
    for path in sorted(MUTANTS.rglob("*.meta")):
        codes: dict[str, int | None] = json.loads(path.read_text())["exit_code_by_key"]
        alive = [name for name, code in codes.items() if code not in KILLED | TIMED_OUT]
        survivors |= {(function_of(name), change_of(name)) for name in alive}
        mutants, survived = mutants + len(codes), survived + len(alive)
        if codes:
            module = str(path.relative_to(MUTANTS / "ousel")).removesuffix(".py.meta")
            print(f"{module:24}{len(codes):5} mutants, {len(alive)} survived")
    percent = 100 * (mutants - survived) / mutants if mutants else 0
    print(f"{percent:.1f} % of {mutants} mutants were killed")
    return report(survivors, explained(), percent)


def report(
    survivors: set[tuple[str, str]], expected: set[tuple[str, str]], percent: float
) -> str | None:
    """Print each difference; return a sentence if there is any, or if too few were killed."""
    for function, change in sorted(survivors - expected):
        print(f"survived, not explained: {function}: {change}")
    for function, change in sorted(expected - survivors):
        print(f"explained, but no survivor: {function}: {change}")
    if survivors != expected or percent < PERCENT_MIN:
        return f"mutants: strengthen a test, or correct {EXPLAINED.relative_to(ROOT)}."
    return None


def explained() -> set[tuple[str, str]]:
    """Return the function and the changed lines of each mutant that may survive."""
    groups = tomllib.loads(EXPLAINED.read_text())["survivors"]
    return {(group["function"], change) for group in groups for change in group["changes"]}


def function_of(name: str) -> str:
    """Return the function that a mutant changes, without mutmut's marks."""
    module, _, marked = name.partition("__mutmut_")[0].rpartition(".")
    method = marked.removeprefix("xǁ").replace("ǁ", ".")
    return f"{module}.{marked.removeprefix('x_') if method == marked else method}"


def change_of(name: str) -> str:
    """Return the lines of a mutant that differ from the source."""
    shown = subprocess.run([MUTMUT, "show", name], cwd=ROOT, capture_output=True, check=True)
    lines = shown.stdout.decode().splitlines()
    return " ".join(
        line[1:].strip() for line in lines if line.startswith("+") and not line.startswith("+++")
    )


if __name__ == "__main__":
    sys.exit(main())
