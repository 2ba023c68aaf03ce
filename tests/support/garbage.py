"""What only the garbage collector can free: objects that refer to each other in a circle."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

Kind = TypeVar("Kind")


@contextmanager
def garbage_of(kind: type[Kind]) -> Iterator[list[Kind]]:
    """Yield a list; in the end it has the garbage of this kind that the block has left."""
    found: list[Kind] = []
    gc.collect()
    gc.disable()
    try:
        yield found
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        found += [each for each in gc.garbage if isinstance(each, kind)]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
