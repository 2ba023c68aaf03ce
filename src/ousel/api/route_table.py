"""The route table: finds the route for a method and a path."""

from collections.abc import Iterable
from functools import lru_cache
from typing import Final, Generic, Protocol, TypeVar
from urllib.parse import unquote_to_bytes

from ousel.http.refusals import MethodNotAllowed, NotFound

SEGMENT_BYTES_MAX: Final = 1_000
CACHED_PATHS_MAX: Final = 4_096


class RouteLike(Protocol):
    """Anything that is found by a method and a path."""

    @property
    def method(self) -> str:
        """The HTTP method."""
        ...

    @property
    def path(self) -> str:
        """The path, with {parameters} where segments vary."""
        ...


AnyRoute = TypeVar("AnyRoute", bound=RouteLike)


class _Node(Generic[AnyRoute]):
    """A node of the tree of path segments."""

    def __init__(self) -> None:
        self.plain: dict[str, _Node[AnyRoute]] = {}
        self.parameter: _Node[AnyRoute] | None = None
        self.names: list[str] = []  # of the parameters on the path to this node
        self.methods: dict[str, AnyRoute] = {}

    def child(self, segment: str) -> "_Node[AnyRoute]":
        """Return the child node for a segment of a route's path; create it if needed."""
        if segment.startswith("{"):
            assert not self.plain, f"{segment} conflicts with a plain segment"
            self.parameter = self.parameter or _Node()
            return self.parameter
        assert self.parameter is None, f"{segment} conflicts with a parameter"
        return self.plain.setdefault(segment, _Node())


class RouteTable(Generic[AnyRoute]):
    """All routes: those without parameters in a dictionary, the others in a tree of segments."""

    def __init__(self, routes: Iterable[AnyRoute]) -> None:
        """Store these routes; no two may have the same method and path."""
        self._plain: dict[str, dict[str, AnyRoute]] = {}
        self._root: _Node[AnyRoute] = _Node()
        cached = lru_cache(maxsize=CACHED_PATHS_MAX)  # polls repeat the same paths
        self._methods_at = cached(self._find_methods)
        for route in routes:
            methods = self._add_path(route.path)
            assert route.method not in methods, f"{route.method} {route.path} is registered twice"
            methods[route.method] = route

    def find(self, method: str, raw_path: str) -> tuple[AnyRoute, dict[str, str]]:
        """Return the route and the values of its path parameters, or refuse."""
        methods, parameters = self._methods_at(raw_path)
        route = methods.get("GET" if method == "HEAD" else method)
        if route is None:
            raise MethodNotAllowed(
                f"{method[:20]} is not allowed here.", members={"allow": allowed_methods(methods)}
            )
        return route, parameters

    def has(self, raw_path: str) -> bool:
        """Return whether any method has a route at this path."""
        try:
            self._methods_at(raw_path)
        except NotFound:
            return False
        return True

    def _add_path(self, path: str) -> dict[str, AnyRoute]:
        if "{" not in path:
            return self._plain.setdefault(path, {})
        node, names = self._root, []
        for segment in path.split("/"):
            node = node.child(segment)
            if segment.startswith("{"):
                names.append(segment[1:-1])
        assert node.names in ([], names), f"{path} is registered with other parameter names"
        node.names = names
        return node.methods

    def _find_methods(self, raw_path: str) -> tuple[dict[str, AnyRoute], dict[str, str]]:
        plain = self._plain.get(raw_path)
        if plain is not None:
            return plain, {}
        node: _Node[AnyRoute] | None = self._root
        values: list[str] = []
        for segment in raw_path.split("/"):
            assert node is not None
            if node.parameter is not None:
                node = node.parameter
                values.append(segment)
            else:
                node = node.plain.get(segment)
            if node is None:
                break
        if node is None or not node.methods:
            raise NotFound("There is nothing at this path.")
        return node.methods, dict(zip(node.names, map(_decode_segment, values), strict=True))


def allowed_methods(methods: dict[str, AnyRoute]) -> str:
    """Return the value of the Allow header for these methods."""
    names = {"HEAD", *methods} if "GET" in methods else set(methods)
    return ", ".join(sorted(names))


def _decode_segment(segment: str) -> str:
    octets = unquote_to_bytes(segment) if "%" in segment else segment.encode()
    try:
        text = octets.decode()
    except UnicodeDecodeError as error:
        raise NotFound("The path is not UTF-8.") from error
    if len(octets) > SEGMENT_BYTES_MAX:
        raise NotFound("The path is too long.")
    return text
