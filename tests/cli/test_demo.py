"""`ousel demo`: one command, and something to try that works."""

import os
import select
import shlex
import signal
import subprocess
import time
from collections.abc import Iterator

import httpx2
import pytest

from tests.cli.commands import OUSEL
from tests.support.servers import free_port

START_SECONDS_MAX = 60


@pytest.fixture(scope="module")
def demo() -> Iterator[tuple[int, str]]:
    """The port of a running demo, and what it printed."""
    port = free_port()
    environment = {name: value for name, value in os.environ.items() if "OUSEL" not in name}
    process = subprocess.Popen(
        [str(OUSEL), "demo", f"--port={port}"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdout is not None
    try:
        printed = _printed_until_ready(process, port)
        yield port, printed
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)


def test_the_printed_curl_sends_a_transfer(demo: tuple[int, str]) -> None:
    """Copied as it stands, it moves 25.00; copied again, it moves nothing more."""
    _, printed = demo
    command = printed[printed.index("curl -s ") :].partition("\n\n")[0]

    answers = [
        subprocess.run(["bash", "-c", command], capture_output=True, check=True) for _ in "12"
    ]

    assert answers[0].stdout == answers[1].stdout
    assert b'"amount":25.00,' in answers[0].stdout
    assert b'"status":"completed"' in answers[0].stdout


def test_the_demo_is_a_sandbox_with_a_funded_partner(demo: tuple[int, str]) -> None:
    """Its key is a test key, and its base URL is the one that was asked for."""
    port, printed = demo
    words = shlex.split(printed[printed.index("curl -s ") :].partition("\n\n")[0])
    key = next(word for word in words if word.startswith("Authorization: Bearer "))

    answer = httpx2.get(
        f"http://127.0.0.1:{port}/v1/balance",
        headers={"Authorization": key.removeprefix("Authorization: ")},
        verify=False,
    )

    assert "Bearer sk_test_" in key
    assert answer.json()["currency"] == "OUSD"
    assert answer.json()["available"] >= 9_000
    assert f"http://127.0.0.1:{port}" in printed


def _printed_until_ready(process: "subprocess.Popen[bytes]", port: int) -> str:
    """Return what the demo prints, once its server answers."""
    assert process.stdout is not None
    deadline = time.monotonic() + START_SECONDS_MAX
    printed = b""
    ready = False
    while not (ready and b"curl -s " in printed):
        assert time.monotonic() < deadline, printed
        assert process.poll() is None, printed
        if select.select([process.stdout], [], [], 0.2)[0]:
            printed += os.read(process.stdout.fileno(), 65536)
        try:
            ready = httpx2.get(f"http://127.0.0.1:{port}/readyz", verify=False).is_success
        except httpx2.TransportError:
            ready = False
    return printed.decode()
