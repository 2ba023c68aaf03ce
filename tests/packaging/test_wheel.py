"""The wheel contains everything that Ousel needs to run."""

import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from tests.support.server import Server

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
INSTALL_SECONDS_MAX = 300


def run(*command: str | Path, **environment: str) -> str:
    """Run a program, which must succeed, and return what it printed."""
    done = subprocess.run(
        [str(part) for part in command],
        env={**os.environ, **environment},
        cwd="/",
        capture_output=True,
        check=False,
        text=True,
        timeout=INSTALL_SECONDS_MAX,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from this clone."""
    folder = tmp_path_factory.mktemp("wheel")
    options = ("--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir")
    run(sys.executable, "-m", "pip", "wheel", *options, folder, ROOT)
    return next(folder.glob("ousel-*.whl"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the programs of a fresh environment, where the documented steps were taken."""
    folder = tmp_path_factory.mktemp("fresh") / "environment"
    run(sys.executable, "-m", "venv", "--without-pip", folder)
    pip = (sys.executable, "-m", "pip", "--quiet", "--python", folder, "install", "--no-compile")
    run(*pip, "--require-hashes", "-r", ROOT / "requirements" / "runtime.txt")
    run(*pip, "--no-deps", wheel)
    return folder / "bin"


class InstalledServer(Server):
    """A server of the fresh environment."""

    def __init__(self, programs: Path, database_url: str) -> None:
        super().__init__(database_url)
        self._command[0] = str(programs / "ousel")


@pytest.fixture(scope="module")
def served(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that runs from the wheel."""
    with InstalledServer(installed, str(tmp_path_factory.mktemp("served") / "ousel.db")) as server:
        yield server


def test_the_wheel_has_every_file_of_the_package(wheel: Path) -> None:
    """Templates, styles, migrations and documents too; tests and settings of tools not."""
    names = set(zipfile.ZipFile(wheel).namelist())
    source = {
        str(path.relative_to(ROOT / "src"))
        for path in (ROOT / "src" / "ousel").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    sources = (ROOT / "docs").rglob("*.md")
    documents = {f"ousel/docs/content/{path.relative_to(ROOT / 'docs')}" for path in sources}

    assert source <= names
    assert documents <= names
    assert "ousel/docs/content/zensical.toml" in names
    strangers = {name for name in names if not re.match(r"ousel(-[0-9.]+\.dist-info)?/", name)}
    assert strangers == set()


def test_the_command_works_in_a_fresh_environment(installed: Path, tmp_path: Path) -> None:
    """A database is made, an account opened, and the books are proven, by the installed command."""
    ousel = installed / "ousel"
    environment = {"OUSEL_DATABASE_URL": str(tmp_path / "ousel.db")}

    run(ousel, "migrate", **environment)
    run(
        *(ousel, "account", "create", "--username=ada", "--email=a@b.example", "--name=Ada"),
        **environment,
    )

    assert "the books balance" in run(ousel, "verify", **environment)


@pytest.mark.parametrize(
    ("path", "has"),
    [
        ("/login", "Sign in"),
        ("/docs", "Ousel"),
        ("/docs/operating/install", "ousel migrate"),
        ("/v1/openapi.json", "createTransfer"),
        ("/readyz", "ok"),
    ],
)
def test_pages_and_documents_are_inside(served: Server, path: str, has: str) -> None:
    """What the server shows comes from the wheel."""
    answer = httpx2.get(f"{served.origin}{path}", verify=False)

    assert answer.status_code == 200, answer.text
    assert has in answer.text


def test_styles_are_inside(served: Server) -> None:
    """Every asset that a page names is served."""
    page = httpx2.get(f"{served.origin}/login", verify=False).text
    assets = re.findall(r'(?:href|src)="(/assets/[^"]+)"', page)

    assert assets
    for asset in assets:
        assert httpx2.get(f"{served.origin}{asset}", verify=False).status_code == 200, asset
