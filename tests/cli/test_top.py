"""`ousel top`: a server's work, seen from the terminal."""

import os
import pty
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from ousel.cli.scrapes import Interval, Labels, Scrape, quantile_of
from ousel.cli.top import frame_of
from tests.cli.commands import (
    OUSEL,
    PROCESS_SECONDS_MAX,
    Operator,
    assert_fails,
    ousel,
    ousel_process,
)
from tests.support.engines import Engines
from tests.support.ports import free_port
from tests.support.server import Server
from tests.support.waiting import wait_until

INFINITE = float("inf")


@pytest.fixture(scope="module")
def watched(
    engines: Engines, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Operator, str]]:
    """An operator with a server that has an admin port."""
    url, port = engines.fresh_url("sqlite", tmp_path_factory.mktemp("top")), free_port()
    with Server(url, OUSEL_ADMIN_PORT=str(port)) as running:
        yield Operator(running), f"http://127.0.0.1:{port}"


@pytest.mark.slow
def test_a_frame_shows_what_happens(watched: tuple[Operator, str]) -> None:
    """Rates and times are those of the interval; the books are those of this moment."""
    operator, admin = watched
    ada, grace = operator.open_account("1000"), operator.open_account()
    key = operator.run("app", "create", f"--owner=@{ada}", "--name=S", "--json").json["key"]

    with _busy(operator, key, f"@{grace}"):
        frame = _busy_frame(operator, admin)

    assert frame["processes"] == 1
    assert frame["requests_per_second"] > 0
    assert frame["routes_per_second"].keys() == {"/v1/transfers"}
    assert frame["refusals_per_second"].keys() == {"account_not_found"}
    unanswered_per_second = 1 / 0.5  # one that was written in the interval's last moment
    postings_max = frame["requests_per_second"] + unanswered_per_second
    assert 0 < frame["postings_per_second"] <= postings_max
    assert 0 < frame["batches_per_second"] <= frame["postings_per_second"]
    assert frame["batch_postings_mean"] >= 1
    assert 0 < frame["request_ms_p50"] <= frame["request_ms_p99"]
    assert frame["transaction_ms_p99"] > 0
    assert 0 <= frame["queue_length"] <= 1  # the busy one sends one after the other
    assert frame["charges"] == {"created": 0, "paid": 0, "canceled": 0, "expired": 0}
    assert (frame["mail_waiting"], frame["mail_failed"]) == (0, 0)
    assert frame["ledger"]["balances_sum_millionths"] == 0


@pytest.mark.slow
def test_once_prints_a_frame_for_people(watched: tuple[Operator, str]) -> None:
    """It fits a terminal of 80 columns; where nothing happens, that is what it shows."""
    operator, admin = watched

    shown = operator.run("top", "--once", "--interval=0.1", f"--url={admin}")

    assert shown.exit_code == 0, shown.errors
    assert "the books balance" in shown.output
    assert "requests/s" in shown.output
    assert "none" in shown.output
    assert "…" not in shown.output


@pytest.mark.slow
@pytest.mark.usefixtures("usual_signals")
def test_it_updates_until_it_is_interrupted(watched: tuple[Operator, str]) -> None:
    """On a terminal, frame after frame; Ctrl-C is the usual end and no failure."""
    _, admin = watched
    try:
        ours, theirs = pty.openpty()
    except OSError as error:
        pytest.skip(f"there is no pseudo-terminal to be had here: {error}")
    command = [str(OUSEL), "top", "--interval=0.1", f"--url={admin}"]
    environment = os.environ | {"TERM": "xterm"}  # a dumb terminal is not drawn on
    with subprocess.Popen(
        command, env=environment, stdout=theirs, stderr=subprocess.PIPE
    ) as process:
        try:
            shown = b""
            while shown.count(b"requests/s") < 4:
                shown += os.read(ours, 65536)
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=PROCESS_SECONDS_MAX)
        finally:
            process.kill()
    os.close(ours)
    os.close(theirs)

    assert (process.returncode, errors) == (0, b"")


@pytest.mark.slow
def test_a_server_on_this_machine_is_asked_without_a_proxy(
    watched: tuple[Operator, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even if the environment names a proxy; the demo's shop and the benchmark do the same."""
    operator, admin = watched
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)

    shown = ousel_process("top", "--once", f"--url={admin}", database=operator.url)

    assert shown.exit_code == 0, shown.errors


@pytest.mark.slow
def test_several_processes_are_seen_as_one(watched: tuple[Operator, str]) -> None:
    """Their counters add up, and the books that they share are told once."""
    operator, admin = watched

    def have_the_same_books() -> bool:
        one, two = (
            operator.run("top", "--json", "--interval=0.1", *[f"--url={admin}"] * processes).json
            for processes in (1, 2)
        )
        assert (one["processes"], two["processes"]) == (1, 2)
        return bool(one["ledger"] == two["ledger"])

    wait_until(have_the_same_books)  # the server caches the books for ten seconds


def test_a_server_that_does_not_answer_is_reported(tmp_path: Path) -> None:
    """By default it looks at port 9464, or where the setting says; one line names the address."""
    port = free_port()

    outcome = ousel(
        "top", "--once", database=str(tmp_path), environment={"OUSEL_ADMIN_PORT": str(port)}
    )

    assert_fails(outcome, f"no metrics at http://127.0.0.1:{port}/metrics")


def test_an_address_without_a_scheme_is_reported(tmp_path: Path) -> None:
    """The line shows how an address is written, and does not blame the server."""
    outcome = ousel("top", "--once", "--url=127.0.0.1:9464", database=str(tmp_path))

    assert_fails(outcome, "127.0.0.1:9464 is not an address such as http://127.0.0.1:9464")


def test_another_answer_than_metrics_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page of some other server, say."""
    monkeypatch.setattr("ousel.cli.scrapes._text", lambda _: "<h1>Welcome</h1>")

    outcome = ousel("top", "--once", "--url=http://127.0.0.1:1", database=str(tmp_path))

    assert_fails(outcome, "does not answer with Prometheus metrics")


@pytest.mark.slow
def test_a_server_without_metrics_is_reported(watched: tuple[Operator, str]) -> None:
    """The public port, say."""
    operator, _ = watched

    outcome = operator.run("top", "--once", f"--url={operator.server.origin}")

    assert_fails(outcome, "is the server running with an admin port?")


@pytest.mark.parametrize(
    ("buckets", "quantile", "expected"),
    [
        ([(1.0, 10.0), (2.0, 20.0), (INFINITE, 20.0)], 0.5, 1.0),
        ([(1.0, 10.0), (2.0, 20.0), (INFINITE, 20.0)], 0.75, 1.5),
        ([(1.0, 0.0), (2.0, 4.0), (INFINITE, 4.0)], 0.25, 1.25),
        ([(1.0, 1.0), (INFINITE, 100.0)], 0.99, 1.0),
        ([(1.0, 0.0), (INFINITE, 0.0)], 0.5, None),
        ([], 0.5, None),
    ],
)
def test_a_quantile_is_read_from_buckets(
    buckets: list[tuple[float, float]], quantile: float, expected: float | None
) -> None:
    """Between two bounds by proportion; above the last one as that; of nothing, none."""
    assert quantile_of(buckets, quantile) == expected


def test_a_wrong_ledger_and_an_unavailable_one_look_different() -> None:
    """A sum that is not 0 is in the frame; without figures there are no books in it."""
    off: dict[str, dict[Labels, float]] = {
        "ousel_ledger_entries": {frozenset(): 4.0},
        "ousel_ledger_accounts": {frozenset(): 3.0},
        "ousel_ledger_issued_ousd": {frozenset(): 1.0},
        "ousel_ledger_balances_sum_millionths": {frozenset(): -5.0},
    }

    seen = frame_of(Interval(Scrape(0, {}), Scrape(1, off)), processes=1)
    away = frame_of(Interval(Scrape(0, {}), Scrape(1, {})), processes=1)

    assert seen.ledger is not None
    assert seen.ledger["balances_sum_millionths"] == -5
    assert away.ledger is None


def test_a_process_without_figures_does_not_change_those_of_the_others() -> None:
    """The ledger is the same for all processes, but one may be unable to read it."""
    shared: dict[str, dict[Labels, float]] = {
        name: {frozenset({("process", str(process))}): value for process in (0, 1)}
        for name, value in {
            "ousel_ledger_entries": 4.0,
            "ousel_ledger_accounts": 3.0,
            "ousel_ledger_issued_ousd": 10_000.0,
            "ousel_ledger_balances_sum_millionths": 0.0,
            "ousel_mail_waiting": 7.0,
        }.items()
    }

    seen = frame_of(Interval(Scrape(0, {}), Scrape(1, shared)), processes=3)

    assert seen.ledger is not None
    assert seen.ledger["issued_ousd"] == 10_000
    assert seen.mail_waiting == 7


@pytest.mark.slow
def test_a_restarted_server_shows_no_negative_rates() -> None:
    """Its counters begin at zero again, so the rate is zero and never negative."""
    nothing: Labels = frozenset()
    before = Scrape(0, {"ousel_http_requests_total": {nothing: 90.0}})
    after = Scrape(1, {"ousel_http_requests_total": {nothing: 3.0}})

    assert Interval(before, after).rate("ousel_http_requests_total") == 0


def _busy_frame(operator: Operator, admin: str) -> Any:
    """Return the first frame in which transfers were posted and refused."""
    frames: list[Any] = []

    def shows_both() -> bool:
        frames.append(operator.run("top", "--json", "--interval=0.5", f"--url={admin}/").json)
        return bool(frames[-1]["postings_per_second"] and frames[-1]["refusals_per_second"])

    wait_until(shows_both)
    return frames[-1]


@contextmanager
def _busy(operator: Operator, key: str, to: str) -> Iterator[None]:
    """Send transfers, some of them to nobody, while the block runs."""
    stop = threading.Event()

    def send() -> None:
        url, headers = f"{operator.server.base_url}/transfers", {"Authorization": f"Bearer {key}"}
        with httpx2.Client(headers=headers, verify=False) as client:
            while not stop.is_set():
                for recipient in (to, to, "@nobody_at_all"):
                    client.post(url, json={"to": recipient, "amount": 0.01})

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
