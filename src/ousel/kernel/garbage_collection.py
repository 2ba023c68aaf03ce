"""How often the garbage collector runs."""

import gc
from typing import Final

ALLOCATIONS_BETWEEN_COLLECTIONS: Final = 50_000


def collect_less_often() -> None:
    """Start collections after tens of thousands of allocations.

    By default one starts after every 700 allocations (2000 since Python 3.13). A command allocates
    tens of thousands of objects for its modules, which it needs until its end.
    """
    gc.set_threshold(ALLOCATIONS_BETWEEN_COLLECTIONS)


def tune_garbage_collector() -> None:
    """Exclude the objects that exist now from garbage collection, and collect less often.

    Hundreds of open requests hold thousands of live objects, and some collections visit all of
    them. With Python 3.11 and its defaults, that took an eighth of the CPU time and caused the
    longest pauses.
    """
    gc.collect()
    gc.freeze()
    collect_less_often()
