"""libfaketime, which shows a wrong clock to a whole process."""

from pathlib import Path

from tests.support.programs import program


def faketime_library() -> str:
    """Return the path of the library, to be loaded before all others (`LD_PRELOAD`)."""
    program("faketime")
    (library,) = Path("/usr/lib").glob("*/faketime/libfaketime.so.1")
    return str(library)


def remove_shared_memory() -> None:
    """Remove what the library leaves if a signal ends its process, by the ids of processes."""
    for left in Path("/dev/shm").glob("*faketime_s*_*"):
        if not Path("/proc", left.name.rpartition("_")[2]).exists():
            left.unlink(missing_ok=True)
