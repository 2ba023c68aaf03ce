"""A network for a cluster: a namespace for each machine, a switch, and cables that can be cut."""

import os
import secrets
import shutil
import subprocess
from typing import Self

NOBODY = "02:00:00:00:00:99"  # no machine has this hardware address: what is sent to it is lost
PROGRAMS = ("ip", "nsenter", "unshare")


class Machine:
    """A network namespace; it ends with the process that holds it, and that one with the test."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._holder = subprocess.Popen(
            ["unshare", "--net", "sh", "-c", "echo ready; exec cat"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._holder.stdout is not None
        assert self._holder.stdout.readline() == b"ready\n"
        self.pid = self._holder.pid
        self.run("link", "set", "lo", "up")

    def command(self, *command: str) -> list[str]:
        """Return the command that runs another one on this machine."""
        return ["nsenter", f"--net=/proc/{self.pid}/ns/net", "--", *command]

    def run(self, *arguments: str) -> None:
        """Change this machine's network with `ip`."""
        _run(*self.command("ip", *arguments))

    def lose_packets_to(self, other: "Machine") -> None:
        """Lose every packet from here to another machine, without an error."""
        self.run("neigh", "replace", other.address, "lladdr", NOBODY, "dev", "eth0")

    def reach(self, other: "Machine") -> None:
        """Send packets to another machine again."""
        self.run("neigh", "flush", "to", other.address, "nud", "permanent", "dev", "eth0")
        self.run("neigh", "flush", "to", other.address, "dev", "eth0")

    def end(self) -> None:
        """Give the namespace up."""
        self._holder.communicate()


class Network:
    """Machines on one switch; this process reaches all of them."""

    def __init__(self, machines: int) -> None:
        name = secrets.token_hex(3)
        prefix = f"10.{128 + secrets.randbelow(127)}.{secrets.randbelow(256)}"
        self.range = f"{prefix}.0/24"
        self._switch = Machine("")
        self._switch.run("link", "add", "switch", "type", "bridge")
        self._switch.run("link", "set", "switch", "up")
        self.machines = [Machine(f"{prefix}.{number}") for number in range(1, machines + 1)]
        for number, machine in enumerate(self.machines, 1):
            self._plug_in(f"ou{name}{number}", "eth0", machine.pid)
            machine.run("addr", "add", f"{machine.address}/24", "dev", "eth0")
            machine.run("link", "set", "eth0", "up")
        here = f"ou{name}h"
        self._plug_in(f"ou{name}0", here, os.getpid())
        _run("ip", "addr", "add", f"{prefix}.254/24", "dev", here)
        _run("ip", "link", "set", here, "up")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for machine in (*self.machines, self._switch):
            machine.end()

    def _plug_in(self, port: str, interface: str, pid: int) -> None:
        """Connect a port of the switch with an interface in the namespace of a process."""
        _run("ip", "link", "add", port, "type", "veth", "peer", interface, "netns", str(pid))
        _run("ip", "link", "set", port, "netns", str(self._switch.pid))
        self._switch.run("link", "set", port, "master", "switch", "up")


def network_is_possible() -> bool:
    """Return whether this process may create network namespaces."""
    return (
        os.geteuid() == 0
        and all(map(shutil.which, PROGRAMS))
        and subprocess.run(["unshare", "--net", "true"], check=False).returncode == 0
    )


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"
