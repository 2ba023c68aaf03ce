"""Checks the answer of a refusal: a problem (RFC 9457) with Ousel's additional members."""

import re
from typing import Any

import httpx2

MEMBERS = {"type", "title", "status", "detail", "code", "request_id"}
REQUEST_ID = re.compile(r"req_[0-9a-v]{26}")


def assert_problem(
    answer: httpx2.Response, status: int, code: str, param: str | None = None, **members: str
) -> dict[str, Any]:
    """Check that the answer is this refusal, complete and well-formed; return its members."""
    assert answer.status_code == status, answer.text
    assert answer.headers["Content-Type"] == "application/problem+json"
    problem: dict[str, Any] = answer.json()
    assert problem["code"] == code, problem
    assert problem.get("param") == param, problem
    named = {"param"} if param is not None else set()
    assert set(problem) == MEMBERS | named | set(members), problem
    assert {name: problem[name] for name in members} == members
    assert problem["status"] == status
    assert problem["type"].endswith(f"/docs/errors#{code}")
    assert problem["type"].startswith("http://127.0.0.1:")
    assert problem["title"]
    assert problem["detail"].endswith((".", ")"))
    assert REQUEST_ID.fullmatch(problem["request_id"])
    assert answer.headers["X-Request-Id"] == problem["request_id"]
    return problem
