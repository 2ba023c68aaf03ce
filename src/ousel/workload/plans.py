"""Load plans: transfers, charges, reads and forms."""

import secrets
from typing import Final, Literal

import msgspec

from ousel.workload.load import LoadPlan
from ousel.workload.processes import Server
from ousel.workload.sample_data import SampleData

WARM_SECONDS_MAX: Final = 0.5

Shape = Literal["hot", "spread", "fan-in"]  # one sender, many senders, or one recipient


def transfer_plan(
    server: Server, data: SampleData, shape: Shape, connections: int, seconds: float
) -> LoadPlan:
    """Return a plan for transfers with new idempotency keys."""
    keys = data.keys[:1] if shape == "hot" else data.keys
    recipients = data.recipients[:1] if shape == "fan-in" else data.recipients
    bodies = [f'{{"to":"{recipient}","amount":0.01,"note":"Order"}}' for recipient in recipients]
    return _post_plan(server, "/v1/transfers", keys, bodies, connections, seconds)


def replay_plan(
    server: Server, data: SampleData, connections: int, seconds: float, numbers: int
) -> LoadPlan:
    """Return a plan for transfers that repeat the same few idempotency keys."""
    plan = transfer_plan(server, data, "hot", connections, seconds)
    return msgspec.structs.replace(plan, numbers=numbers, statuses=[200, 201])


def charge_plan(server: Server, data: SampleData, connections: int, seconds: float) -> LoadPlan:
    """Return a plan for charges with new idempotency keys."""
    bodies = ['{"amount":25.00,"description":"An order","reference":"order-1"}']
    return _post_plan(server, "/v1/charges", data.keys, bodies, connections, seconds)


def read_plan(
    server: Server,
    targets: list[tuple[str, dict[str, str]]],
    connections: int,
    seconds: float,
    status: int = 200,
    rate: float | None = None,
) -> LoadPlan:
    """Return a plan for GETs; each connection reads one of the targets, a path with headers."""
    heads = [_head("GET", path, headers) + b"X-Number: " for path, headers in targets]
    return LoadPlan(
        port=server.port,
        connections=connections,
        warm_seconds=warm_seconds(seconds),
        seconds=seconds,
        statuses=[status],
        heads=heads,
        rate=rate,
    )


def one_time_plan(
    server: Server, requests: list[bytes], connections: int, seconds: float
) -> LoadPlan:
    """Return a plan that sends each of these requests at most once and expects redirects."""
    return LoadPlan(
        port=server.port,
        connections=connections,
        warm_seconds=warm_seconds(seconds),
        seconds=seconds,
        statuses=[303],
        requests=requests,
    )


def warm_seconds(seconds: float) -> float:
    """Return how long a load runs before the seconds that are measured."""
    return min(WARM_SECONDS_MAX, seconds / 2)


def form_request(path: str, cookie: str, body: str) -> bytes:
    """Return the request with which a browser sends a form."""
    headers = {
        "Cookie": cookie,
        "Content-Type": "application/x-www-form-urlencoded",
        "Content-Length": str(len(body)),
    }
    return _head("POST", path, headers) + b"\r\n" + body.encode()


def _post_plan(
    server: Server,
    path: str,
    keys: list[str],
    bodies: list[str],
    connections: int,
    seconds: float,
) -> LoadPlan:
    """Return a plan for POSTs with new idempotency keys."""
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
    return LoadPlan(
        port=server.port,
        connections=connections,
        warm_seconds=warm_seconds(seconds),
        seconds=seconds,
        statuses=[201],
        heads=heads,
        tails=[f"\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode() for body in bodies],
    )


def _head(method: str, path: str, headers: dict[str, str]) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "".join(f"{line}\r\n" for line in lines).encode()
