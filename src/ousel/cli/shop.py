"""The demo's shop: a partner's software, which runs beside the service as a separate process."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from ousel.kernel.programs import program

STOP_SECONDS_MAX: Final = 5


def shop_can_run() -> bool:
    """Return whether the dependencies of the shop are installed."""
    return all(find_spec(name) is not None for name in ("ousel_client", "starlette"))


@contextmanager
def run_shop(environment: Mapping[str, str]) -> Iterator[None]:
    """Run the shop with these environment variables until the block ends.

    If this process is killed, the shop ends as well.
    """
    runner = Path(__file__).with_name("until_parent_ends.py")
    command = [sys.executable, "-P", str(runner), str(_shop_path())]
    with program(command, os.environ | environment, stdin=subprocess.PIPE) as process:
        try:
            yield
        finally:
            _stop(process)


def _stop(process: "subprocess.Popen[bytes]") -> None:
    """Let the shop finish the answer it is writing, if that does not take too long."""
    process.terminate()
    with suppress(subprocess.TimeoutExpired):
        process.wait(STOP_SECONDS_MAX)


def _shop_path() -> Path:
    """Return the path of the shop's file, installed or in a checkout."""
    installed = Path(str(files("ousel"))) / "examples" / "shop.py"
    if installed.exists():
        return installed
    return Path(__file__).parents[3] / "examples" / "shop" / "shop.py"
