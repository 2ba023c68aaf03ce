"""Example calls of the endpoints, for curl, for both clients, and as values for forms."""

from typing import Any, Final
from urllib.parse import quote

import msgspec

from ousel.api.route import Access, Route
from ousel.docs.client_examples import PYTHON_EXAMPLES, TYPESCRIPT_EXAMPLES
from ousel.docs.docs_keys import DocsKey

_ID_PREFIXES: Final = {"transfers": "tr_…", "charges": "ch_…", "lab": "reh_…"}
_HEADERS: Final = {"Idempotency-Key": "order-2001"}

_PYTHON: Final = """import os

from ousel_client import Client

client = Client({key}, base_url="{base_url}")
{call}"""
_TYPESCRIPT: Final = """import {{ Client }} from "ousel-client";

const client = new Client({key}, {{
  baseUrl: "{base_url}",
}});
{call}"""


class ExampleCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call of one endpoint, with example values."""

    name: str
    method: str
    base_url: str
    path: str  # below the base URL, with {parameters}
    access: Access
    path_values: dict[str, str]
    headers: dict[str, str]
    body: str  # JSON, or nothing


def example_call(route: Route, base_url: str, path: str, fields: dict[str, Any]) -> ExampleCall:
    """Return the example for a route whose body has these fields."""
    body = {name: field["examples"][0] for name, field in fields.items() if "examples" in field}
    return ExampleCall(
        name=route.name,
        method=route.method,
        base_url=base_url,
        path=path,
        access=route.access,
        path_values={name: _path_value(name, path) for name in route.path_parameters},
        headers={name: _HEADERS[name] for name in route.request_headers if name in _HEADERS},
        body=msgspec.json.encode(body).decode() if body else "",
    )


def fill_path(path: str, values: dict[str, str]) -> str:
    """Return the path with these values as its parameters."""
    for name, value in values.items():
        path = path.replace(f"{{{name}}}", value)
    return path


def programs(call: ExampleCall, key: DocsKey | None) -> dict[str, str]:
    """Return the call as a command or program in each language, with this key if there is one."""
    secret = None if key is None else f'"{key.secret}"'
    by_language = {
        "Python": (_PYTHON, 'os.environ["OUSEL_KEY"]', PYTHON_EXAMPLES),
        "TypeScript": (_TYPESCRIPT, "process.env.OUSEL_KEY!", TYPESCRIPT_EXAMPLES),
    }
    clients = {
        language: frame.format(
            key=secret or placeholder, base_url=call.base_url, call=examples[call.name]
        )
        for language, (frame, placeholder, examples) in by_language.items()
    }
    if secret is not None:
        clients["Python"] = clients["Python"].removeprefix("import os\n\n")
    return {"curl": _curl(call, key)} | clients


def _curl(call: ExampleCall, key: DocsKey | None) -> str:
    secret, client_id = ("$OUSEL_KEY", "$CLIENT_ID") if key is None else (key.secret, key.client_id)
    values = {name: quote(value, safe="…") for name, value in call.path_values.items()}
    lines = [f"curl {call.base_url}{fill_path(call.path, values)}"]
    match call.access:
        case "client":
            lines.append(f'-u "{client_id}:{secret}"')
        case "partner":
            lines.append(f'-H "Authorization: Bearer {secret}"')
        case "user":
            lines.append('-H "Authorization: Bearer $USER_TOKEN"')
        case "public":
            pass
    lines += [f'-H "{name}: {value}"' for name, value in call.headers.items()]
    if call.body:
        lines += ['-H "Content-Type: application/json"', f"-d '{call.body}'"]
    elif call.method == "POST":
        lines.insert(1, "-X POST")
    return " \\\n  ".join(lines)


def _path_value(name: str, path: str) -> str:
    if name == "identifier":
        return "@ada"
    segments = path.split("/")
    return _ID_PREFIXES[segments[segments.index(f"{{{name}}}") - 1]]
