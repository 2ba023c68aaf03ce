"""The measurements measure: a short run comes to its end and proves the books."""

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / ".build" / "bench"
CASES = {
    "pgbench tpcb-like 8",
    "pgbench tpcb-like 32",
    "postgresql hot 64",
    "sqlite hot 64",
    "sqlite charge 256",
    "reference fastapi hot 64",
}


def test_a_short_run_measures_what_it_is_asked_for() -> None:
    """Each case is measured, none fails, and the books are proven in the end."""
    older = set(RESULTS.glob("results-*.json"))
    ended = subprocess.run(
        [
            sys.executable,
            "-m",
            "bench",
            "--quick",
            "--only",
            "hot 64",
            "--only",
            "sqlite charge 256",
            "--only",
            "pages",
            "--only",
            "mixed",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert ended.returncode == 0, ended.stderr
    assert "The ledgers are verified" in ended.stderr
    [written] = set(RESULTS.glob("results-*.json")) - older
    report = msgspec.json.decode(written.read_bytes())
    results = report["results"]
    assert report["commit"]
    assert {result["name"] for result in results} == CASES
    assert all(result["rate"] > 0 for result in results)
    assert {page["engine"] for page in report["pages"]} == {"postgresql", "sqlite"}
    assert {each["request"] for each in report["mixed"]} >= {"transfers", "balance"}
    assert all(each["rate"] > 0 for each in report["mixed"])
    assert max(result["ratio"] for result in results if "pgbench" in result["name"]) == 1
