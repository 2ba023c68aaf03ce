"""Refusals: each a named class that carries all that its answer needs."""

from typing import cast

import pytest

from ousel.kernel.errors import (
    DatabaseUnavailable,
    InvalidAmount,
    InvalidField,
    OutcomeUnknown,
    Refusal,
    all_refusals,
    release_frames,
)


def test_a_refusal_carries_its_sentence_and_its_field() -> None:
    """What is wrong, where, when to come back, and what else the answer says."""
    plain = InvalidField("note is too long.", param="note")
    waiting = DatabaseUnavailable("Gone.", retry_after_seconds=3, members={"host": "db"})

    assert str(plain) == plain.detail == "note is too long."
    assert (plain.param, plain.retry_after_seconds, plain.members) == ("note", None, {})
    assert (waiting.param, waiting.retry_after_seconds) == (None, 3)
    assert waiting.members == {"host": "db"}


def test_every_refusal_is_found_by_its_class() -> None:
    """The catalogue lists each class that has a code of its own, however deep it stands."""
    root = type("Root", (), {})
    family = type("Family", (root,), {})
    child = type("Child", (family,), {"code": "child_of_a_family"})

    found = list(all_refusals())

    assert {InvalidAmount, InvalidField, DatabaseUnavailable, OutcomeUnknown} <= set(found)
    assert list(all_refusals(cast("type[Refusal]", root))) == [child]


def test_statuses_agree_with_their_meaning() -> None:
    """What the caller can mend is a 4xx; what only time mends is a 503."""
    assert {InvalidAmount.status, InvalidField.status} == {400}
    assert {DatabaseUnavailable.status, OutcomeUnknown.status} == {503}


def test_an_error_that_was_dealt_with_keeps_no_frame() -> None:
    """Neither does the error that caused it, nor the one that came before."""

    def fail() -> None:
        try:
            int("x")
        except ValueError:
            next(iter(()))

    def refuse() -> None:
        try:
            fail()
        except StopIteration as error:
            raise InvalidField("note is too long.") from error

    with pytest.raises(InvalidField) as raised:
        refuse()
    release_frames(raised.value)

    cause = raised.value.__cause__
    assert cause is not None
    assert cause.__context__ is not None
    errors = (raised.value, cause, cause.__context__)
    assert [each.__traceback__ for each in errors] == [None] * 3
