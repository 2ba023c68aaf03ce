"""The table of routes: finds the route of a method and a path."""

from collections.abc import Iterable
from functools import lru_cache
from typing import Final, Generic, Protocol, TypeVar
from urllib.parse import unquote_to_bytes

from ousel.http.refusals import MethodNotAllowed, NotFound

SEGMENT_BYTES_MAX: Final = 1_000
PATHS_KEPT_MAX: Final = 4_096


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


AnyRoute = TypeVar("AnyRoute", bound=Routed)


class _Node(Generic[AnyRoute]):
    """Where a path has come to, segment by segment, and how it may go on."""

    def __init__(self) -> None:
        self.plain: dict[str, _Node[AnyRoute]] = {}
        self.parameter: _Node[AnyRoute] | None = None
        self.names: list[str] = []  # of the parameters on the way here
        self.methods: dict[str, AnyRoute] = {}

    def next(self, segment: str) -> "_Node[AnyRoute]":
        """Return the place behind a segment of a route's path, new or known."""
        if segment.startswith("{"):
            assert not self.plain, f"{segment} would stand beside plain words"
            self.parameter = self.parameter or _Node()
            return self.parameter
        assert self.parameter is None, f"{segment} would stand beside a parameter"
        return self.plain.setdefault(segment, _Node())


class RouteTable(Generic[AnyRoute]):
    """All routes, found by a dictionary where the path is plain and by segments where not."""

    def __init__(self, routes: Iterable[AnyRoute]) -> None:
        """Hold these routes; two of them may not share a method and a path."""
        self._plain: dict[str, dict[str, AnyRoute]] = {}
        self._root: _Node[AnyRoute] = _Node()
        self._match = lru_cache(maxsize=PATHS_KEPT_MAX)(self._matched)  # polls ask for the same
        for route in routes:
            methods = self._methods_of(route.path)
            assert route.method not in methods, f"{route.method} {route.path} is there twice"
            methods[route.method] = route

    def find(self, method: str, raw_path: str) -> tuple[AnyRoute, dict[str, str]]:
        """Return the route and the values of its path's parameters, or say what is not there."""
        methods, parameters = self._match(raw_path)
        route = methods.get("GET" if method == "HEAD" else method)
        if route is None:
            raise MethodNotAllowed(
                f"{method[:20]} is not allowed here.", members={"allow": allowed_methods(methods)}
            )
        return route, parameters

    def has(self, raw_path: str) -> bool:
        """Say whether there is something at this path, by whichever method."""
        try:
            self._match(raw_path)
        except NotFound:
            return False
        return True

    def _methods_of(self, path: str) -> dict[str, AnyRoute]:
        if "{" not in path:
            return self._plain.setdefault(path, {})
        place, names = self._root, []
        for segment in path.split("/"):
            place = place.next(segment)
            if segment.startswith("{"):
                names.append(segment[1:-1])
        assert place.names in ([], names), f"{path} is there with other names"
        place.names = names
        return place.methods

    def _matched(self, raw_path: str) -> tuple[dict[str, AnyRoute], dict[str, str]]:
        plain = self._plain.get(raw_path)
        if plain is not None:
            return plain, {}
        place: _Node[AnyRoute] | None = self._root
        values: list[str] = []
        for segment in raw_path.split("/"):
            assert place is not None
            if place.parameter is not None:
                place = place.parameter
                values.append(segment)
            else:
                place = place.plain.get(segment)
            if place is None:
                break
        if place is None or not place.methods:
            raise NotFound("There is nothing at this path.")
        return place.methods, dict(zip(place.names, map(_decoded, values), strict=True))


def allowed_methods(methods: dict[str, AnyRoute]) -> str:
    """Return the value of the Allow header for these methods."""
    names = {"HEAD", *methods} if "GET" in methods else set(methods)
    return ", ".join(sorted(names))


def _decoded(segment: str) -> str:
    octets = unquote_to_bytes(segment) if "%" in segment else segment.encode()
    try:
        text = octets.decode()
    except UnicodeDecodeError as error:
        raise NotFound("The path is not UTF-8.") from error
    if len(octets) > SEGMENT_BYTES_MAX:
        raise NotFound("The path is too long.")
    return text
