"""Trials: in a sandbox, the page of an endpoint makes the call and shows the answer."""

import base64
from http import HTTPStatus
from typing import Final
from urllib.parse import quote, urlencode

import msgspec

from ousel.docs.docs_keys import DocsKey, DocsKeys
from ousel.docs.examples import fill_path
from ousel.docs.operations import Operation
from ousel.http.messages import AnswerDropped, Request, Responder, Response
from ousel.kernel.errors import InvalidField
from ousel.site.visits import Visit

_BODY: Final = "body"
_HEADERS_LEFT_OUT: Final = frozenset(
    {
        "cache-control",
        "content-length",
        "content-security-policy",
        "referrer-policy",
        "strict-transport-security",
        "traceresponse",
        "x-content-type-options",
    }
)


class TrialAnswer(msgspec.Struct, frozen=True):
    """The answer to a trial: its status, headers and body, or a note that none came."""

    called: str
    status: str
    text: str
    is_success: bool = False


class TrialView(msgspec.Struct, frozen=True):
    """What the page shows of trials."""

    key: DocsKey | None
    apps: dict[str, str]
    values: dict[str, str]  # of the form's fields
    answer: TrialAnswer | None = None


class Trials:
    """Makes calls with the docs keys of those who are signed in."""

    def __init__(self, keys: DocsKeys, responder: Responder) -> None:
        """Pass the calls on to the responder that answers all requests of this server."""
        self.keys = keys
        self._responder = responder

    async def view(self, visit: Visit, operation: Operation) -> TrialView:
        """Return what the page shows before a call is made."""
        key, apps = None, {}
        if visit.person is not None:
            key = await self.keys.find(visit)
            apps = {} if key is not None else await self.keys.apps(visit)
        return TrialView(key, apps, _values(operation, visit))

    async def run(self, visit: Visit, operation: Operation) -> TrialView:
        """Make the call that the form describes, unless there is no docs key any more."""
        view = await self.view(visit, operation)
        if view.key is None:
            return view
        request = _request(operation, visit, view.values, view.key)
        query = f"?{request.query.decode()}" if request.query else ""
        path = request.path.removeprefix(operation.base_path)
        called = f"{request.method} {operation.call.base_url}{path}{query}"
        try:
            answer = _show(called, await self._responder.respond(request))
        except AnswerDropped:
            answer = TrialAnswer(called, "No answer", "The connection was closed.")
        return msgspec.structs.replace(view, answer=answer)


def _values(operation: Operation, visit: Visit) -> dict[str, str]:
    """Return the values of the form: those that were sent, or the examples."""
    call = operation.call
    examples = {f"header.{name}": value for name, value in call.headers.items()}
    examples |= {
        f"path.{name}": value for name, value in call.path_values.items() if "…" not in value
    }
    if call.body:
        examples[_BODY] = msgspec.json.format(call.body, indent=2)
    names = [field.form_name for field in operation.parameters]
    return {name: visit.form.get(name, examples.get(name, "")) for name in (*names, _BODY)}


def _request(operation: Operation, visit: Visit, values: dict[str, str], key: DocsKey) -> Request:
    given: dict[str, dict[str, str]] = {"path": {}, "query": {}, "header": {}}
    for field in operation.parameters:
        value = values[field.form_name]
        if field.place == "header" and not value.isprintable():
            raise InvalidField("A header must be one line of printable text.", param=field.name)
        if value or field.place == "path":
            given[field.place][field.name] = value
    headers = {name.lower().encode(): value.encode() for name, value in given["header"].items()}
    headers[b"authorization"] = _authorization(operation, visit, key).encode()
    if operation.call.body:
        headers[b"content-type"] = b"application/json"
    path_values = {name: quote(value, safe="") for name, value in given["path"].items()}
    return Request(
        method=operation.method,
        path=operation.base_path + fill_path(operation.path, path_values),
        query=urlencode(given["query"]).encode(),
        headers=headers,
        body=values[_BODY].encode() if operation.call.body else b"",
        ip_address=visit.ip_address,
    )


def _authorization(operation: Operation, visit: Visit, key: DocsKey) -> str:
    match operation.call.access:
        case "client":
            pair = f"{key.client_id}:{key.secret}".encode()
            return f"Basic {base64.b64encode(pair).decode()}"
        case "user":
            return f"Bearer {visit.form.get('user_token', '').strip()}"
        case "partner" | "public":
            return f"Bearer {key.secret}"


def _show(called: str, response: Response) -> TrialAnswer:
    """Return the response as text; JSON is indented."""
    status = HTTPStatus(response.status)
    lines = response.head.decode("latin-1").splitlines()
    shown = [line for line in lines if line.partition(":")[0] not in _HEADERS_LEFT_OUT]
    is_json = any(line.startswith("content-type:") and "json" in line for line in shown)
    body = msgspec.json.format(response.body, indent=2) if is_json else response.body
    text = "\n".join([*shown, "", body.decode()])
    return TrialAnswer(
        called,
        f"{status.value} {status.phrase}",
        text.rstrip(),
        is_success=status < HTTPStatus.BAD_REQUEST,
    )
