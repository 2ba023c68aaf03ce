"""Pages of a list: a limit, an order and an opaque cursor."""

import base64
import binascii
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Final, Generic, Literal, TypeVar

import msgspec

from ousel.database.statements import BIGINT_MAX
from ousel.kernel.errors import InvalidField

LIMIT_DEFAULT: Final = 20
LIMIT_MAX: Final = 100
CURSOR_CHARACTERS_MAX: Final = 160

_POSITION_DIGITS_MAX: Final = len(str(BIGINT_MAX))

Limit = Annotated[
    int, msgspec.Meta(ge=1, le=LIMIT_MAX, description="The maximum number of records on a page.")
]
Cursor = Annotated[
    str,
    msgspec.Meta(
        min_length=1,
        max_length=CURSOR_CHARACTERS_MAX,
        description="`next_cursor` of the previous page.",
    ),
]

Order = Annotated[
    Literal["newest", "oldest"], msgspec.Meta(description="Which record comes first.")
]

Record = TypeVar("Record")
Item = TypeVar("Item")


class Page(msgspec.Struct, Generic[Record], frozen=True, kw_only=True):
    """One page of a list."""

    object: str = "list"
    data: list[Record]
    has_more: bool
    next_cursor: Annotated[
        str | None, msgspec.Meta(description="Send it as `cursor` to get the next page.")
    ]


def make_page(
    items: Sequence[Item],
    limit: int,
    record: Callable[[Item], Any],
    position: Callable[[Item], int | str],
) -> Page[Any]:
    """Return a page of at most `limit` items; an extra item means that there are more."""
    shown = items[:limit]
    has_more = len(items) > limit
    return Page(
        data=[record(item) for item in shown],
        has_more=has_more,
        next_cursor=cursor_at(position(shown[-1])) if has_more else None,
    )


def cursor_at(position: int | str) -> str:
    """Return the cursor that continues after this position."""
    return base64.urlsafe_b64encode(f"after:{position}".encode()).decode().rstrip("=")


def sequence_from_cursor(cursor: str | None) -> int | None:
    """Return the number that a cursor continues after, or refuse a cursor that we did not issue."""
    if cursor is None:
        return None
    position = _number(text_from_cursor(cursor))
    if not 1 <= position <= BIGINT_MAX or cursor_at(position) != cursor:
        raise invalid_cursor()
    return position


def sequence_to_follow(cursor: str | None) -> int:
    """Return the number after which to continue, oldest first.

    The cursor may also be that number itself: `sequence` of the last record that was handled.
    """
    if cursor is None:
        return 0
    text = cursor if cursor.isdecimal() else text_from_cursor(cursor)
    position = _number(text)
    if not 0 <= position < BIGINT_MAX or cursor not in {str(position), cursor_at(position)}:
        raise invalid_cursor()
    return position


def _number(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) <= _POSITION_DIGITS_MAX else -1


def text_from_cursor(cursor: str) -> str:
    """Return the text that a cursor continues after, or refuse a cursor that we did not issue."""
    try:
        octets = base64.b64decode(cursor + "=" * (-len(cursor) % 4), b"-_", validate=True)
        position = octets.decode("ascii").removeprefix("after:")
    except (ValueError, binascii.Error):
        raise invalid_cursor() from None
    if cursor_at(position) != cursor:
        raise invalid_cursor()
    return position


def invalid_cursor() -> InvalidField:
    """Return the refusal of a cursor that we did not issue."""
    return InvalidField(
        "cursor is not valid: send the next_cursor of a previous page.", param="cursor"
    )
