"""Programs that tests need besides Python's: found, or installed where that is allowed."""

import shutil
import subprocess
from functools import cache


@cache
def program(*names: str, package: str) -> str:
    """Return the path of the first program that is there; install the package where none is."""
    found = next(filter(None, map(shutil.which, names)), None)
    if found is None and shutil.which("apt-get"):
        for command in (["update"], ["install", "-y", package]):
            subprocess.run(["apt-get", "-qq", *command], check=False, capture_output=True)
        found = next(filter(None, map(shutil.which, names)), None)
    assert found, f"{names[0]} is missing: run 'sudo apt-get install {package}'."
    return found
