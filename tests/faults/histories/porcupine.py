"""Runs histories through Porcupine, a checker of linearizability written by others, in Go."""

import os
import shutil
import subprocess
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

SOURCE = Path(__file__).parent / "porcupine"
BUILD_SECONDS_MAX = 240.0
CHECK_SECONDS_MAX = 600.0


def porcupine_verdicts(histories: Path) -> dict[int, str]:
    """Return Ok, Illegal or Unknown for each group; needs Go."""
    with histories.open("rb") as lines:
        done = subprocess.run(
            [str(Path(_built().name) / "porcupine")],
            stdin=lines,
            capture_output=True,
            text=True,
            timeout=CHECK_SECONDS_MAX,
            check=True,
        )
    pairs = (line.split() for line in done.stdout.splitlines())
    return {int(number): verdict for number, verdict in pairs}


def go() -> str | None:
    """Return the path of Go's command, if it is installed."""
    return shutil.which("go")


@cache
def _built() -> TemporaryDirectory[str]:
    """Build the program once for all tests, in a folder that goes with this process."""
    folder = TemporaryDirectory(prefix="ousel-porcupine-")
    command = go()
    assert command is not None, "Porcupine needs Go: apt-get install golang"
    built = subprocess.run(
        [command, "build", "-o", folder.name, "-buildvcs=false", "."],
        cwd=SOURCE,
        env=os.environ | {"GOFLAGS": "-mod=readonly"},
        capture_output=True,
        text=True,
        timeout=BUILD_SECONDS_MAX,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    return folder
