"""Plans for loads: transfers between accounts, and plain reads."""

import secrets
from typing import Final, Literal

import msgspec

from ousel.workload.load import Plan
from ousel.workload.processes import Server
from ousel.workload.sample_data import Books

WARM_SECONDS: Final = 0.5

Shape = Literal["hot", "spread", "fan-in"]  # one sender, many, or one recipient


def transfers(server: Server, books: Books, shape: Shape, connections: int, seconds: float) -> Plan:
    """Return a load of transfers whose idempotency keys no other load has used."""
    keys = books.keys[:1] if shape == "hot" else books.keys
    recipients = books.recipients[:1] if shape == "fan-in" else books.recipients
    bodies = [f'{{"to":"{recipient}","amount":0.01,"note":"Order"}}' for recipient in recipients]
    return _posts(server, "/v1/transfers", keys, bodies, connections, seconds)


def replays(server: Server, books: Books, connections: int, seconds: float, numbers: int) -> Plan:
    """Return a load of transfers that are sent again and again with the same few keys."""
    plan = transfers(server, books, "hot", connections, seconds)
    return msgspec.structs.replace(plan, numbers=numbers, statuses=[200, 201])


def charges(server: Server, books: Books, connections: int, seconds: float) -> Plan:
    """Return a load of new charges, each with an idempotency key of its own."""
    bodies = ['{"amount":25.00,"description":"An order","reference":"order-1"}']
    return _posts(server, "/v1/charges", books.keys, bodies, connections, seconds)


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
    path: str,
    keys: list[str],
    bodies: list[str],
    connections: int,
    seconds: float,
) -> Plan:
    """Return a load that creates something with each request, under a key of its own."""
    load_name = secrets.token_hex(6)
    heads = [
        _head(
            "POST",
            path,
            {"Authorization": f"Bearer {key}", "Content-Type": "application/json"},
        )
        + f"Idempotency-Key: {load_name}-".encode()
        for key in keys
    ]
    return Plan(
        port=server.port,
        connections=connections,
        warm_seconds=WARM_SECONDS,
        seconds=seconds,
        statuses=[201],
        heads=heads,
        tails=[f"\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode() for body in bodies],
    )


def _head(method: str, path: str, headers: dict[str, str]) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "".join(f"{line}\r\n" for line in lines).encode()
