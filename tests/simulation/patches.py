"""What in Ousel asks the machine for time or chance asks the simulation instead."""

import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from random import Random
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from ousel.database import batching, retries, sqlite
from ousel.kernel import ids
from ousel.kernel.logs import LOGGER_NAME
from ousel.ledger import writer

Patch = tuple[object, str, object]


@contextmanager
def patched(*patches: Patch) -> Iterator[None]:
    """Replace attributes of modules or classes for the length of a block."""
    with ExitStack() as stack:
        for target, name, value in patches:
            stack.enter_context(patch.object(target, name, value))
        yield


def simulated_machine(
    now: Callable[[], float],
    random: Random,
    connect: Callable[[Any], Any],
    commit_thread: Callable[[str], Any],
    batch_items_max: int,
) -> list[Patch]:
    """Return the patches for one run."""
    return [
        (ids, "os", SimpleNamespace(urandom=random.randbytes)),
        (ids, "_tails", []),
        (retries, "random", random),
        (sqlite, "time", SimpleNamespace(monotonic=now)),
        (sqlite, "_connect", connect),
        (sqlite, "CommitThread", commit_thread),
        (batching, "BATCH_ITEMS_MAX", batch_items_max),
        (writer, "UNHALVED_POSTINGS_MAX", min(writer.UNHALVED_POSTINGS_MAX, batch_items_max)),
        (logging.getLogger(LOGGER_NAME), "disabled", True),
    ]
