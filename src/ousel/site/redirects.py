"""Redirects to other pages, but never by accident to another site."""

from http import HTTPStatus

from ousel.http.messages import Answer, RawHeader


def see_other(location: str, *headers: RawHeader) -> Answer:
    """Return an answer that makes the browser GET this location."""
    return Answer(
        HTTPStatus.SEE_OTHER,
        b"",
        content_type=b"text/plain",
        headers=((b"location", location.encode("ascii", "strict")), *headers),
    )


def local_path(target: str, default: str) -> str:
    """Return the target if it is a path on this site, else the default."""
    safe = target.startswith("/") and not target.startswith(("//", "/\\"))
    if not safe or not target.isascii() or not target.isprintable() or "\\" in target:
        return default
    return target
