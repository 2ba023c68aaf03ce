"""`ousel demo`: one command, and something to try that works."""

import os
import select
import shlex
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2
import msgspec
import pytest

from ousel.cli import demo as demo_command
from ousel.kernel.settings import Settings
from tests.cli.commands import OUSEL, assert_fails, ousel
from tests.cli.demos import stop_demo, wait_until_free
from tests.support.engines import ENGINES, Engine, Engines
from tests.support.ports import free_port
from tests.support.programs import program
from tests.support.signals import signals_for_children

pytestmark = pytest.mark.slow

START_SECONDS_MAX = 240


class Demo(msgspec.Struct, frozen=True):
    """A running demo: where it and its shop are, and what it printed."""

    origin: str
    shop_url: str
    printed: str

    @property
    def first_call(self) -> str:
        """The call that it says to copy first."""
        return self.printed[self.printed.index("curl -s ") :].partition("\n\n")[0]

    @property
    def authorized(self) -> dict[str, str]:
        """The header with the partner's key."""
        words = shlex.split(self.first_call)
        header = next(word for word in words if word.startswith("Authorization: Bearer "))
        return {"Authorization": header.removeprefix("Authorization: ")}

    def charge(self, checkout_url: str) -> dict[str, str]:
        """Return the charge that is paid at this address."""
        charge_id = checkout_url.rpartition("/")[2]
        url = f"{self.origin}/v1/charges/{charge_id}"
        charge: dict[str, str] = httpx2.get(url, headers=self.authorized, verify=False).json()
        return charge


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    """A running demo, with its shop; it uses no setting of a real installation.

    When it is interrupted in the end, nothing of it is left.
    """
    folder = tmp_path_factory.mktemp("demo")
    port, shop_port = free_port(), free_port()
    environment = os.environ | {
        "OUSEL_LOG_KEY_FILE": "/dev/null/log-key",
        "OUSEL_SECRET_FILE": "/dev/null/secret",
        "OUSEL_PORTAL_URL": "https://pay.example",
        "OUSEL_RATE_LIMIT": "1/hour",
        "OUSEL_DATABASE_URL_FILE": "/dev/null/database-url",
        "TMPDIR": str(folder),
    }
    with signals_for_children():
        process = subprocess.Popen(
            [str(OUSEL), "demo", f"--port={port}", f"--shop-port={shop_port}"],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
    assert process.stdout is not None
    origin, shop_url = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{shop_port}"
    try:
        yield Demo(origin, shop_url, _printed_until_ready(process, f"{origin}/readyz", shop_url))
    finally:
        stop_demo(process, signal.SIGINT, port, shop_port)
    assert list(folder.iterdir()) == []


@pytest.fixture
def browser(demo: Demo) -> Iterator[httpx2.Client]:
    """A visitor of the shop, who keeps its cookie."""
    with httpx2.Client(base_url=demo.shop_url, verify=False, follow_redirects=True) as client:
        yield client


def test_the_printed_curl_sends_a_transfer(demo: Demo) -> None:
    """Copied as it stands, it moves 25.00; copied again, it moves nothing more."""
    program("curl")
    answers = [
        subprocess.run(["bash", "-c", demo.first_call], capture_output=True, check=True)
        for _ in "12"
    ]

    assert answers[0].stdout == answers[1].stdout
    assert b'"amount":25.00,' in answers[0].stdout
    assert b'"status":"completed"' in answers[0].stdout


def test_the_demo_is_a_sandbox_with_a_funded_partner(demo: Demo) -> None:
    """Its key is a test key, and its addresses are the ones that were asked for."""
    answer = httpx2.get(f"{demo.origin}/v1/balance", headers=demo.authorized, verify=False)

    assert demo.authorized["Authorization"].startswith("Bearer sk_test_")
    assert answer.json()["currency"] == "OUSD"
    assert answer.json()["available"] >= 9_000
    assert demo.origin in demo.printed
    assert demo.shop_url in demo.printed
    assert "put a book into the shop's cart" in demo.printed
    assert f"{demo.origin}/sandbox/mail" in demo.printed
    mail = httpx2.get(f"{demo.origin}/sandbox/mail", verify=False)
    assert "<h1>Mail of this sandbox</h1>" in mail.text
    assert f"{demo.origin}/apps" in mail.text  # in the message about the partner's key


def test_a_payer_who_turns_back_finds_the_cart_as_it_was(
    demo: Demo, browser: httpx2.Client
) -> None:
    """The charge is canceled, and the books are in the cart again, once however often one asks."""
    checkout_url = _bought(browser)
    assert "Your cart is empty." in browser.get("/").text

    back = browser.get(demo.charge(checkout_url)["cancel_url"])

    assert str(back.url) == f"{demo.shop_url}/"
    assert "Pay 12.50 OUSD" in back.text
    assert demo.charge(checkout_url)["status"] == "canceled"
    again = browser.get(demo.charge(checkout_url)["cancel_url"])
    assert "The payment is canceled" in again.text
    assert "Pay 12.50 OUSD" in browser.get("/").text


def test_a_payer_who_has_paid_cannot_turn_back(demo: Demo, browser: httpx2.Client) -> None:
    """The order stays paid and is delivered, and the cart stays empty."""
    checkout_url = _bought(browser)
    charge = demo.charge(checkout_url)
    paid = httpx2.post(
        f"{demo.origin}/v1/sandbox/charges/{charge['id']}/pay",
        headers=demo.authorized,
        json={"payer": "@ada"},
        verify=False,
    )
    assert paid.is_success, paid.text

    back = browser.get(charge["cancel_url"])

    assert "Your books are on their way." in back.text
    assert demo.charge(checkout_url)["status"] == "paid"
    assert "Your cart is empty." in browser.get("/").text


def test_an_order_that_is_not_there_cannot_be_canceled(browser: httpx2.Client) -> None:
    """A made-up address changes nothing and says so."""
    assert browser.get("/orders/order-nothing/canceled").status_code == 404
    assert "Your cart is empty." in browser.get("/").text


@pytest.mark.usefixtures("usual_signals")
def test_a_demo_that_is_terminated_while_it_starts_stops_its_shop(tmp_path: Path) -> None:
    """Nothing of it is left: before long neither port answers, and its database is gone."""
    ports = free_port(), free_port()
    process = subprocess.Popen(
        [str(OUSEL), "demo", f"--port={ports[0]}", f"--shop-port={ports[1]}"],
        env=os.environ | {"TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdout is not None
    try:
        process.stdout.readline()  # the welcome: the shop has been started, the server not yet
        stop_demo(process, signal.SIGTERM, *ports)
    finally:
        process.kill()

    assert list(tmp_path.iterdir()) == []


def test_killing_a_demo_stops_its_shop(tmp_path: Path) -> None:
    """It can tell its shop nothing any more; neither port answers before long all the same."""
    ports = free_port(), free_port()
    with subprocess.Popen(
        [str(OUSEL), "demo", f"--port={ports[0]}", f"--shop-port={ports[1]}"],
        env=os.environ | {"TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            shop_url = f"http://127.0.0.1:{ports[1]}"
            _printed_until_ready(process, f"http://127.0.0.1:{ports[0]}/readyz", shop_url)
        finally:
            process.kill()

    wait_until_free(*ports)


def test_a_port_in_use_is_reported_with_the_option_to_choose_another() -> None:
    """One line, before anything is set up."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        outcome = ousel("demo", f"--port={port}", database="unused.db")

    assert_fails(outcome, f"cannot listen on 127.0.0.1, port {port}: the port is taken")
    assert outcome.errors.endswith("choose another with --port\n")


def test_without_the_shop_s_port_the_demo_runs_without_a_shop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where the shop's address would stand it says why; of steps in a shop there is no word."""
    monkeypatch.setattr(demo_command, "serve_until_stopped", lambda _, listener: listener.close())
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port, server_port = taken.getsockname()[1], free_port()
        outcome = ousel(
            "demo", f"--port={server_port}", f"--shop-port={port}", database="unused.db"
        )

    assert outcome.exit_code == 0, outcome.errors
    lines = outcome.output.splitlines()
    shop = next(line for line in lines if line.startswith("  shop "))
    assert any(line.startswith("  database       /") for line in lines)
    assert any(line.startswith(f"  log key        127.0.0.1:{server_port}/log+") for line in lines)
    assert shop.endswith(f"not running: port {port} is taken; choose another with --shop-port")
    assert "curl -s " in outcome.output
    assert "cart" not in outcome.output


def test_a_demo_on_the_shop_s_port_runs_without_a_shop(monkeypatch: pytest.MonkeyPatch) -> None:
    """The demo keeps the port, and says how to choose another for the shop."""
    monkeypatch.setattr(demo_command, "serve_until_stopped", lambda _, listener: listener.close())
    port = free_port()

    outcome = ousel("demo", f"--port={port}", f"--shop-port={port}", database="unused.db")

    assert outcome.exit_code == 0, outcome.errors
    assert f"not running: port {port} is taken; choose another with --shop-port" in outcome.output
    assert "cart" not in outcome.output


def test_a_demo_on_all_addresses_shows_one_that_a_browser_can_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It listens on all addresses, but each address that it names is this machine's own."""
    bound = []

    def stop_at_once(_: Settings, listener: socket.socket) -> None:
        bound.append(listener.getsockname()[0])
        listener.close()

    monkeypatch.setattr(demo_command, "serve_until_stopped", stop_at_once)
    monkeypatch.setattr(demo_command, "shop_can_run", lambda: False)
    port = free_port()

    outcome = ousel("demo", "--host=0.0.0.0", f"--port={port}", "--json", database="unused.db")

    assert bound == ["0.0.0.0"]
    assert outcome.json["base_url"] == f"http://127.0.0.1:{port}/v1"
    assert outcome.json["portal_url"] == f"http://127.0.0.1:{port}"


def test_without_the_shop_s_packages_the_demo_runs_without_a_shop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As from a wheel alone: it names what to install, and of steps in a shop there is no word."""
    monkeypatch.setattr(demo_command, "serve_until_stopped", lambda _, listener: listener.close())
    monkeypatch.setattr(demo_command, "shop_can_run", lambda: False)
    outcome = ousel("demo", f"--port={free_port()}", database="unused.db")

    assert outcome.exit_code == 0, outcome.errors
    assert "not installed: it needs the packages ousel-client and starlette" in outcome.output
    assert "curl -s " in outcome.output
    assert "cart" not in outcome.output


@pytest.mark.parametrize("engine", ENGINES)
def test_a_given_database_is_filled_once_and_printed_as_json(
    monkeypatch: pytest.MonkeyPatch, engines: Engines, engine: Engine, tmp_path: Path
) -> None:
    """It stays when the demo ends; what is in it is never mixed with another demo's."""
    monkeypatch.setattr(demo_command, "serve_until_stopped", lambda _, listener: listener.close())
    own = engines.empty_url(engine, tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        shop_port = f"--shop-port={taken.getsockname()[1]}"
        call = ("demo", f"--port={free_port()}", shop_port, f"--database={own}", "--json")
        first, second = ousel(*call, database="unused.db"), ousel(*call, database="unused.db")

    told = first.json
    if engine == "sqlite":
        assert told["database"] == own
        kept = ousel("log", "key", "show", "--json", database=own).json["key"]
        # The same key, but each command names its log after its own address.
        assert told["log_key"].split("+", 2)[2] == kept.split("+", 2)[2]
    accounts = ousel("account", "list", "--json", database=own).json
    assert set(told["usernames"]) < {account["username"] for account in accounts}
    assert told["key"].startswith("sk_test_")
    assert told["shop_url"] is None
    assert_fails(second, "the database is not empty: a demo needs an empty one")


def _bought(browser: httpx2.Client) -> str:
    """Put a book into the cart and go to pay; return the address of the checkout page."""
    browser.post("/cart/notes")
    sent_on = browser.post("/pay", follow_redirects=False)
    assert sent_on.status_code == 303, sent_on.text
    return sent_on.headers["location"]


def _printed_until_ready(process: "subprocess.Popen[bytes]", *urls: str) -> str:
    """Return what the demo prints, once these addresses answer."""
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
            ready = all(httpx2.get(url, verify=False).is_success for url in urls)
        except httpx2.TransportError:
            ready = False
    return printed.decode()
