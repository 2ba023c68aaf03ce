"""Forms: reading them, and refusing those that another site sent.

This protects against cross-site request forgery (CSRF): every form contains a token derived from
the session cookie or, without a session and on the pages for signing in, from the visitor cookie.
So no other site can post it. The Origin header, if the browser sends one, must be this site's.
"""

import hashlib
import hmac
import re
from collections.abc import Collection
from typing import Final, Literal
from urllib.parse import parse_qsl

from ousel.http.messages import Request, whole_body
from ousel.http.refusals import UnsupportedMediaType
from ousel.kernel.errors import InvalidField, Refusal
from ousel.kernel.ids import is_secret, new_secret
from ousel.site.visits import Visit

FORM_FIELDS_MAX: Final = 100
SEED_PREFIX: Final = "fs_"
NUL: Final = "\0"  # PostgreSQL cannot store it

# The headers of forms with files as browsers write them (RFC 7578). The standard library's parser
# takes seconds for some hostile ones.
_BOUNDARY: Final = re.compile(
    rb'multipart/form-data; *boundary=("?)([0-9A-Za-z\'()+_,./:=?-]{1,70})\1', re.IGNORECASE
)
_PART_NAME: Final = re.compile(
    rb'^Content-Disposition: *form-data; *name="([^"\r\n]{1,100})"', re.IGNORECASE | re.MULTILINE
)


class FormNotTrusted(Refusal):
    """A form did not come from a page that this site showed to this visitor."""

    status = 403
    code = "form_not_trusted"
    title = "The form was not accepted"
    cure = "Open the page again and send the form once more."


def form_token(cookie: str) -> str:
    """Return the form token of the visitor with this cookie."""
    return hashlib.sha256(f"form:{cookie}".encode()).hexdigest()


def new_seed() -> str:
    """Return the seed of a new form, by which the form is recognized if it is sent twice."""
    return new_secret(SEED_PREFIX)


def seed_of(visit: Visit) -> str:
    """Return the seed of the form that was sent, or a new one if it has none."""
    seed = visit.form.get("seed", "")
    return seed if is_secret(seed, SEED_PREFIX) else new_seed()


def check_form(visit: Visit, own_origins: Collection[str], tokens: Collection[str]) -> None:
    """Refuse a form that does not come from a page that this site showed to this visitor.

    The form must have one of these tokens.
    """
    origin = visit.headers.get(b"origin")
    if origin is not None and origin.decode("latin-1") not in own_origins:
        raise FormNotTrusted("This form was sent from another site.")
    given = visit.form.get("form_token", "")
    if not any(hmac.compare_digest(given.encode(), token.encode()) for token in tokens):
        raise FormNotTrusted(
            "The form is out of date: someone signed in or out meanwhile, or the browser stores "
            "no cookies. Nothing was changed. Open the page again and send the form once more."
        )


def read_form(request: Request, *, may_have_files: bool = False) -> dict[str, str]:
    """Return the fields of a form, or refuse a body that is not a form.

    The content of a file is returned as text; invalid bytes are replaced.
    """
    header = request.headers.get(b"content-type", b"")
    content_type = header.partition(b";")[0].strip().lower()
    if may_have_files and content_type == b"multipart/form-data":
        return _parse_parts(header, whole_body(request))
    if content_type != b"application/x-www-form-urlencoded":
        raise UnsupportedMediaType("A form must be sent as application/x-www-form-urlencoded.")
    return _parse_fields(whole_body(request), "strict")


def read_query(request: Request) -> dict[str, str]:
    """Return the query parameters of a page; invalid bytes are replaced."""
    return _parse_fields(request.query, "replace")


def _parse_parts(content_type: bytes, body: bytes) -> dict[str, str]:
    """Return the fields of a form with files."""
    boundary = _BOUNDARY.fullmatch(content_type.strip())
    found = (b"\r\n" + body).split(b"\r\n--" + boundary[2], FORM_FIELDS_MAX + 1) if boundary else []
    # The parts are between an empty beginning and the end, which is marked by two more dashes.
    parts = found[1:-1]
    if not parts or found[0] or not found[-1].startswith(b"--"):
        raise InvalidField("The form cannot be read.", param="form")
    fields: dict[str, str] = {}
    for part in parts:
        head, _, content = part.partition(b"\r\n\r\n")
        if name := _PART_NAME.search(head):
            fields[name[1].decode("utf-8", "replace")] = content.decode("utf-8", "replace")
    return fields


def _parse_fields(encoded: bytes, errors: Literal["strict", "replace"]) -> dict[str, str]:
    try:
        pairs = parse_qsl(
            encoded.decode("ascii", errors),
            keep_blank_values=True,
            errors=errors,
            max_num_fields=FORM_FIELDS_MAX,
        )
    except ValueError as error:
        raise InvalidField("The form or the query cannot be read.", param="form") from error
    for name, value in pairs:
        if NUL in name or NUL in value:
            raise InvalidField("A text must not contain the character NUL.", param=name[:100])
    return dict(pairs)
