"""The table of routes: finds the route of a method and a path."""

from collections.abc import Iterable
from typing import Final, Generic, Protocol, TypeVar
from urllib.parse import unquote_to_bytes

from ousel.web.refusals import MethodNotAllowed, NotFound

SEGMENT_BYTES_MAX: Final = 1_000


class Routed(Protocol):
    """Whatever is found by a method and a path."""

    @property
    def method(self) -> str:
        """The HTTP method."""
        ...

    @property
    def path(self) -> str:
        """The path, with {parameters} where segments vary."""
        ...


Found = TypeVar("Found", bound=Routed)


class RouteTable(Generic[Found]):
    """All routes, found by a dictionary where the path is plain and by segments where not."""

    def __init__(self, routes: Iterable[Found]) -> None:
        """Hold these routes; two of them may not share a method and a path."""
        self._plain: dict[str, dict[str, Found]] = {}
        self._shaped: list[tuple[list[str], dict[str, Found]]] = []
        for route in routes:
            methods = self._methods_of(route.path)
            assert route.method not in methods, f"{route.method} {route.path} is there twice"
            methods[route.method] = route

    def find(self, method: str, raw_path: str) -> tuple[Found, dict[str, str]]:
        """Return the route and the values of its path's parameters, or say what is not there."""
        methods, parameters = self._match(raw_path)
        route = methods.get("GET" if method == "HEAD" else method)
        if route is None:
            raise MethodNotAllowed(
                f"{method[:20]} is not allowed here.", members={"allow": allowed(methods)}
            )
        return route, parameters

    def _methods_of(self, path: str) -> dict[str, Found]:
        if "{" not in path:
            return self._plain.setdefault(path, {})
        shape = path.split("/")
        for known, methods in self._shaped:
            if known == shape:
                return methods
        methods = {}
        self._shaped.append((shape, methods))
        return methods

    def _match(self, raw_path: str) -> tuple[dict[str, Found], dict[str, str]]:
        plain = self._plain.get(raw_path)
        if plain is not None:
            return plain, {}
        segments = raw_path.split("/")
        for shape, methods in self._shaped:
            parameters = _fitted(shape, segments)
            if parameters is not None:
                return methods, parameters
        raise NotFound("There is nothing at this path.")


def allowed(methods: dict[str, Found]) -> str:
    """Return the value of the Allow header for these methods."""
    names = {"HEAD", *methods} if "GET" in methods else set(methods)
    return ", ".join(sorted(names))


def _fitted(shape: list[str], segments: list[str]) -> dict[str, str] | None:
    """Return the parameters of a path that has this shape."""
    if len(shape) != len(segments):
        return None
    parameters: dict[str, str] = {}
    for wanted, segment in zip(shape, segments, strict=True):
        if wanted.startswith("{"):
            parameters[wanted[1:-1]] = _decoded(segment)
        elif wanted != segment:
            return None
    return parameters


def _decoded(segment: str) -> str:
    octets = unquote_to_bytes(segment)
    try:
        text = octets.decode()
    except UnicodeDecodeError as error:
        raise NotFound("The path is not UTF-8.") from error
    if len(octets) > SEGMENT_BYTES_MAX:
        raise NotFound("The path is too long.")
    return text
