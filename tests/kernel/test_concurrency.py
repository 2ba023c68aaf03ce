"""Limits on what is in progress at the same time, in all and for each holder."""

from contextlib import ExitStack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ousel.kernel.concurrency import ConcurrencyLimit

TOTAL_MAX = 5
HOLDER_MAX = 3


@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=40))
def test_neither_limit_is_ever_exceeded(steps: list[tuple[str, bool]]) -> None:
    """Whoever enters and leaves, a holder is accepted exactly if both limits have room."""
    limit = ConcurrencyLimit(total_max=TOTAL_MAX, holder_max=HOLDER_MAX)
    held: dict[str, list[ExitStack]] = {name: [] for name in "abc"}
    for name, enters in steps:
        if enters:
            has_room = sum(map(len, held.values())) < TOTAL_MAX and len(held[name]) < HOLDER_MAX
            assert limit.is_reached(name) is not has_room
            stack = ExitStack()
            assert stack.enter_context(limit.hold(name)) is has_room
            if has_room:
                held[name].append(stack)
        elif held[name]:
            held[name].pop().close()


def test_a_block_that_fails_gives_its_place_back() -> None:
    """What ends with an error has ended."""
    limit = ConcurrencyLimit(holder_max=1)
    with pytest.raises(ValueError, match="planned"), limit.hold("a"):
        raise ValueError("planned")

    with limit.hold("a") as is_accepted:
        assert is_accepted
