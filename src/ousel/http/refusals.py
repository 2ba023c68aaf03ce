"""Refusals that do not depend on the endpoint or page of a request, and the log of failures."""

from http import HTTPStatus

from ousel.kernel.errors import Refusal, first_cause
from ousel.kernel.logs import EventLogger

_log = EventLogger()


class MalformedRequest(Refusal):
    """The server received something that is not a valid HTTP request."""

    status = 400
    code = "malformed_request"
    title = "The HTTP request is not valid"
    cure = "Send an HTTP/1.1 request with a `Host` header."


class NotFound(Refusal):
    """There is nothing at this path."""

    status = 404
    code = "not_found"
    title = "There is nothing here"
    cure = "Check the path against the API reference."


class MethodNotAllowed(Refusal):
    """The path exists, but not with this method."""

    status = 405
    code = "method_not_allowed"
    title = "The method is not allowed here"
    cure = "Use one of the methods that the `Allow` header names."


class BodyTooLarge(Refusal):
    """The body is larger than 64 KiB."""

    status = 413
    code = "body_too_large"
    title = "The body is too large"
    cure = "Send at most 65536 bytes."


class UnsupportedMediaType(Refusal):
    """The body's Content-Type is not supported here, or the body is compressed."""

    status = 415
    code = "unsupported_media_type"
    title = "The content type is not supported"
    cure = "To the API, send `Content-Type: application/json`, and no Content-Encoding."


class HeadTooLarge(Refusal):
    """The URL and the headers are too long, or there are too many headers or chunks."""

    status = 431
    code = "head_too_large"
    title = "The head of the request is too large"
    cure = "Send at most 100 headers and 65536 bytes before the body, and no tiny chunks."


class InternalError(Refusal):
    """Ousel failed unexpectedly; the operator's log has the request id."""

    status = 500
    code = "internal_error"
    title = "Something failed on the server"
    cure = "Retry with exponential backoff, keeping the Idempotency-Key; report the request id."


def log_if_failure(refusal: Refusal, request_id: str) -> None:
    """Log a refusal with a status of 500 or more."""
    if refusal.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        _log.error(
            "a request could not be served",
            request_id=request_id,
            code=refusal.code,
            reason=refusal.detail,
            cause=repr(first_cause(refusal)),
        )
