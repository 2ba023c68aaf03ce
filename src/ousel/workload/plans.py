"""Plans for loads: transfers between accounts, and plain reads."""

import secrets
from typing import Final, Literal

import msgspec

from ousel.workload.books import Books
from ousel.workload.load import Plan
from ousel.workload.processes import Server

WARM_SECONDS: Final = 0.5

Shape = Literal["hot", "spread", "fan-in"]  # one sender, many, or one recipient


def transfers(server: Server, books: Books, shape: Shape, connections: int, seconds: float) -> Plan:
    """Return a load of transfers whose idempotency keys no other load has used."""
    keys = books.keys[:1] if shape == "hot" else books.keys
    recipients = books.recipients[:1] if shape == "fan-in" else books.recipients
    return _posts(server, keys, recipients, connections, seconds, statuses=[201])


def replays(server: Server, books: Books, connections: int, seconds: float, numbers: int) -> Plan:
    """Return a load of transfers that are sent again and again with the same few keys."""
    keys, recipients = books.keys[:1], books.recipients
    plan = _posts(server, keys, recipients, connections, seconds, statuses=[200, 201])
    return msgspec.structs.replace(plan, numbers=numbers)


def reads(
    server: Server,
    targets: list[tuple[str, dict[str, str]]],
    connections: int,
    seconds: float,
    status: int = 200,
) -> Plan:
    """Return a load of GETs: each connection reads one path, with headers of its own."""
    heads = [_head("GET", path, headers) + b"X-Number: " for path, headers in targets]
    return Plan(
        port=server.port,
        connections=connections,
        warm_seconds=WARM_SECONDS,
        seconds=seconds,
        statuses=[status],
        heads=heads,
    )


def once(server: Server, requests: list[bytes], connections: int, seconds: float) -> Plan:
    """Return a load of ready requests, each of which is sent once and answered by a redirect."""
    return Plan(
        port=server.port,
        connections=connections,
        warm_seconds=WARM_SECONDS,
        seconds=seconds,
        statuses=[303],
        requests=requests,
    )


def form(path: str, cookie: str, body: str) -> bytes:
    """Return the request by which a browser sends a form."""
    headers = {
        "Cookie": cookie,
        "Content-Type": "application/x-www-form-urlencoded",
        "Content-Length": str(len(body)),
    }
    return _head("POST", path, headers) + b"\r\n" + body.encode()


def _posts(
    server: Server,
    keys: list[str],
    recipients: list[str],
    connections: int,
    seconds: float,
    *,
    statuses: list[int],
) -> Plan:
    load_name = secrets.token_hex(6)
    heads = [
        _head(
            "POST",
            "/v1/transfers",
            {"Authorization": f"Bearer {key}", "Content-Type": "application/json"},
        )
        + f"Idempotency-Key: {load_name}-".encode()
        for key in keys
    ]
    bodies = [f'{{"to":"{recipient}","amount":0.01,"note":"Order"}}' for recipient in recipients]
    return Plan(
        port=server.port,
        connections=connections,
        warm_seconds=WARM_SECONDS,
        seconds=seconds,
        statuses=statuses,
        heads=heads,
        tails=[f"\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode() for body in bodies],
    )


def _head(method: str, path: str, headers: dict[str, str]) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "".join(f"{line}\r\n" for line in lines).encode()
