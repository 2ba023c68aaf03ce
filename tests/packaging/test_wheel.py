"""The wheels of Ousel and of its client contain everything that they need to run."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest

from tests.support.ports import free_port
from tests.support.server import wait_for_http

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

ROOT = Path(__file__).parents[2]
PAGES = {
    "/login": "Sign in",
    "/docs": "Ousel",
    "/docs/operating/install": "ousel migrate",
    "/v1/openapi.json": "createTransfer",
    "/readyz": "ok",
}
INSTALL_SECONDS_MAX = 600  # the index or the machine may be slow


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


def build_wheel(source: Path, folder: Path) -> Path:
    """Build the wheel of a project of this clone, and return its path."""
    options = ("--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir")
    run(sys.executable, "-m", "pip", "wheel", *options, folder, source)
    return next(folder.glob("*.whl"))


class Environment:
    """A fresh environment with nothing installed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.programs = folder / "bin"
        run(sys.executable, "-m", "venv", "--without-pip", folder)

    def install(self, *arguments: str | Path) -> None:
        """Install something with pip."""
        pip = (sys.executable, "-m", "pip", "--quiet", "--python", self._folder, "install")
        run(*pip, "--no-compile", *arguments)

    def install_pins(self, name: str) -> None:
        """Install what is pinned in a file of requirements."""
        self.install("--require-hashes", "-r", ROOT / "requirements" / f"{name}.txt")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of Ousel."""
    return build_wheel(ROOT, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def client_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of the client."""
    return build_wheel(ROOT / "clients" / "python", tmp_path_factory.mktemp("client"))


def environment_with_pip(folder: Path) -> Path:
    """Create an environment with a copy of our own pip, which pipx would otherwise download."""
    programs = Environment(folder).programs
    source = Path(sysconfig.get_path("purelib"))
    (target,) = folder.glob("lib/python*/site-packages")
    for part in (source / "pip", *source.glob("pip-*.dist-info")):
        shutil.copytree(part, target / part.name)
    shutil.copy(source.parents[2] / "bin" / "pip", programs)
    return folder


class Pipx:
    """A pipx with an environment and folders of its own; it installs the pinned versions."""

    def __init__(self, folder: Path) -> None:
        environment = Environment(folder / "environment")
        environment.install_pins("pipx")
        self._program = environment.programs / "pipx"
        names = ("PIPX_HOME", "PIPX_BIN_DIR", "PIPX_MAN_DIR")
        self._folders = {name: str(folder / name) for name in names}
        self._folders["PIPX_SHARED_LIBS"] = str(environment_with_pip(folder / "shared"))
        self.programs = folder / "PIPX_BIN_DIR"
        files = [ROOT / "requirements" / f"{name}.txt" for name in ("runtime", "demo")]
        pins = "\n".join(map(Path.read_text, files))
        versions = folder / "versions.txt"  # hashes would be required of our own wheels too
        versions.write_text("\n".join(re.findall(r"^[\w.-]+==[^\s;]+", pins, re.MULTILINE)))
        self._options = ("--pip-args", f"--no-compile --constraint={versions}")

    def run(self, command: str, *arguments: str | Path) -> None:
        """Install or inject something."""
        run(self._program, command, *self._options, *arguments, **self._folders)


@pytest.fixture(scope="module")
def pipx(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Pipx:
    """A pipx that has installed the wheel into a fresh environment."""
    fresh = Pipx(tmp_path_factory.mktemp("pipx"))
    fresh.run("install", "--python", sys.executable, wheel)
    return fresh


@pytest.fixture(scope="module")
def installed(pipx: Pipx) -> Path:
    """The folder of the programs that were installed."""
    return pipx.programs


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


@contextmanager
def run_demo(programs: Path, folder: Path) -> Iterator[dict[str, Any]]:
    """Run the installed `ousel demo`, and yield what it prints as JSON once it is ready."""
    ports = (free_port(), free_port())
    command = [str(programs / "ousel"), "demo", "--json", f"--port={ports[0]}"]
    with subprocess.Popen(
        [*command, f"--shop-port={ports[1]}"], cwd=folder, stdout=subprocess.PIPE, text=True
    ) as demo:
        try:
            wait_for_http(f"http://127.0.0.1:{ports[0]}/readyz", INSTALL_SECONDS_MAX)
            assert demo.stdout is not None
            printed = "".join(iter(demo.stdout.readline, "}\n"))
            yield msgspec.json.decode(printed + "}")
        finally:
            demo.terminate()


def send_first_transfer(demo: dict[str, Any]) -> int:
    """Send a transfer as the partner of a demo, and return the answer's status."""
    return httpx2.post(
        f"{demo['base_url']}/transfers",
        json={"to": "@ada", "amount": 25, "idempotency_key": "first"},
        headers={"Authorization": f"Bearer {demo['key']}"},
        verify=False,
    ).status_code


def assert_pages_are_served(origin: str) -> None:
    """Check that pages, documents, and every asset that a page names come from the wheel."""
    with httpx2.Client(base_url=origin, verify=False) as client:
        for path, text in PAGES.items():
            answer = client.get(path)
            assert answer.status_code == 200, answer.text
            assert text in answer.text
        assets = re.findall(r'(?:href|src)="(/assets/[^"]+)"', client.get("/login").text)
        assert assets
        for asset in assets:
            assert client.get(asset).status_code == 200, asset


def test_the_client_is_installed_alone(
    client_wheel: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A partner needs nothing of the server: the client's wheel names its own dependencies."""
    environment = Environment(tmp_path_factory.mktemp("partner") / "environment")
    environment.install(client_wheel)
    program = "import ousel_client; print(ousel_client.Client.__name__)"

    assert run(environment.programs / "python", "-c", program) == "Client\n"


def test_the_demo_has_a_shop_once_its_packages_are_installed(
    pipx: Pipx, client_wheel: Path, tmp_path: Path
) -> None:
    """The shop needs packages that Ousel does not; without it everything else can be tried."""
    assert re.fullmatch(r"ousel \d+\.\d+\.\d+\n", run(pipx.programs / "ousel", "--version"))
    with run_demo(pipx.programs, tmp_path) as demo:
        assert demo["shop_url"] is None
        assert send_first_transfer(demo) == 201
        assert_pages_are_served(demo["portal_url"])

    pipx.run("inject", "ousel", client_wheel, "starlette")

    with run_demo(pipx.programs, tmp_path) as demo:
        wait_for_http(demo["shop_url"])
        assert send_first_transfer(demo) == 201
