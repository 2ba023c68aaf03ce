"""A simulated disk failure: SQLite's writes or flushes of its log return errors.

SQLite calls files through a table of functions. This module changes the table in the running
library, so it needs no compiler, no mount and no permission.
"""

import _sqlite3
import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

Operation = Literal["write", "flush"]

OPEN_WAL = 0x80000
IOERR_WRITE = 778
IOERR_FSYNC = 1034
METHODS = 19  # entries of the table: the version number and 18 functions
WRITE, SYNC = 3, 5  # positions of these functions in the table

_Open = ctypes.CFUNCTYPE(
    ctypes.c_int,
    *(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p),
)
_Write = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_int64
)
_Sync = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int)
_Methods = ctypes.c_void_p * METHODS

_kept: list[Any] = []  # what SQLite points to must never be freed


class _FileSystem(ctypes.Structure):
    """The beginning of SQLite's description of a file system."""

    _fields_ = (
        ("version", ctypes.c_int),
        ("file_bytes", ctypes.c_int),
        ("path_bytes_max", ctypes.c_int),
        ("next", ctypes.c_void_p),
        ("name", ctypes.c_char_p),
        ("data", ctypes.c_void_p),
        ("open", ctypes.c_void_p),
    )


def let_logs_fail(fails: Callable[[Operation], bool]) -> Callable[[], None]:
    """Make operations fail if `fails` says so, on each log that SQLite opens from now on.

    Return a function that ends this: logs that are opened after its call work again.
    """
    library = ctypes.CDLL(getattr(_sqlite3, "__file__", None))
    library.sqlite3_vfs_find.restype = ctypes.POINTER(_FileSystem)
    file_system = library.sqlite3_vfs_find(None).contents
    real_address = file_system.open
    real_open = _Open(real_address)

    def open_file(vfs: int, name: int, file: int, flags: int, flags_out: int) -> int:
        code: int = real_open(vfs, name, file, flags, flags_out)
        if code == 0 and flags & OPEN_WAL:
            methods = ctypes.cast(file, ctypes.POINTER(ctypes.POINTER(_Methods)))
            methods[0] = ctypes.pointer(_failing_methods(methods[0].contents, fails))
        return code

    replaced = _Open(open_file)
    _kept.append(replaced)
    file_system.open = ctypes.cast(replaced, ctypes.c_void_p).value

    def end() -> None:
        file_system.open = real_address

    return end


def _failing_methods(real: Any, fails: Callable[[Operation], bool]) -> Any:
    """Return a copy of a file's functions that fail on demand."""
    real_write, real_sync = _Write(real[WRITE]), _Sync(real[SYNC])

    def write(file: int, data: int, size: int, offset: int) -> int:
        return IOERR_WRITE if fails("write") else int(real_write(file, data, size, offset))

    def sync(file: int, flags: int) -> int:
        return IOERR_FSYNC if fails("flush") else int(real_sync(file, flags))

    callbacks = (_Write(write), _Sync(sync))
    methods = _Methods(*real)
    methods[WRITE], methods[SYNC] = (
        ctypes.cast(callback, ctypes.c_void_p).value for callback in callbacks
    )
    _kept.extend((callbacks, methods))
    return methods


def fail_by_marker(marker: Path) -> None:
    """Make the operations that this file names fail on logs, while the file exists."""

    def fails(operation: Operation) -> bool:
        try:
            return operation in marker.read_text()
        except FileNotFoundError:
            return False

    let_logs_fail(fails)
