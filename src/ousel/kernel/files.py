"""Files that are written as a whole, and survive a crash."""

import errno
import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

_OWNER_ONLY: Final = 0o600
_BY_UMASK: Final = 0o666
_FOR_OTHERS: Final = 0o007
_FOR_GROUP: Final = 0o070
_CANNOT_FLUSH: Final = {errno.EINVAL, errno.ENOTSUP, errno.EBADF, errno.EACCES, errno.EPERM}


def write_durably(
    path: Path, content: bytes, *, for_owner_only: bool = False, replaces: bool = True
) -> None:
    """Write a file as a whole: after a crash, it has the old content or the new.

    It keeps the permissions of the file that it replaces, except those for others. If root writes
    it, it gets the owner and group of the file that it replaces, or else of its folder.
    If the path is a symbolic link, the file behind it is replaced.
    If `replaces` is False and the file or a link exists, raise FileExistsError.
    """
    if replaces:
        path = Path(os.path.realpath(path))
    unfinished = path.with_name(f"{path.name}.{secrets.token_hex(4)}.unfinished")
    mode = _OWNER_ONLY if for_owner_only else _BY_UMASK
    try:
        descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(descriptor, "wb") as file:
            _keep_access(path, file.fileno())
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if replaces:
            unfinished.replace(path)
        else:
            path.hardlink_to(unfinished)  # unlike a rename, this never replaces a file
    except FileExistsError:
        flush_folder(path.parent)  # another process may have written the file only just now
        raise
    except OSError as error:
        error.filename = str(path)  # not the temporary file, which the operator does not know
        raise
    finally:
        unfinished.unlink(missing_ok=True)
    flush_folder(path.parent)


def give_to_owner_of_folder(path: Path) -> None:
    """Give a file that root has created to the owner and group of its folder.

    The server that will use the file usually runs as another user.
    """
    if os.geteuid() == 0:
        folder = path.parent.stat()
        with suppress(PermissionError):  # some containers take this right from root
            os.chown(path, folder.st_uid, folder.st_gid, follow_symlinks=False)


def read_if_there(path: Path) -> bytes | None:
    """Return the content of a file, or None if there is no such file."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def reason_of(error: OSError | ValueError) -> str:
    """Return why a text file cannot be read, in a few words."""
    return str(error.strerror) if isinstance(error, OSError) else "it is not text in UTF-8"


def _keep_access(path: Path, new_file: int) -> None:
    """Let those who may use the file at this path also use the new file that will replace it."""
    replaced = path.stat() if path.exists() else None
    if os.geteuid() == 0:  # the server that will read the file may run as another user
        owner = replaced or path.parent.stat()
        with suppress(PermissionError):  # some containers take this right from root
            os.fchown(new_file, owner.st_uid, owner.st_gid)
    elif replaced is not None:
        with suppress(OSError):  # only a member of the group may do this
            os.fchown(new_file, -1, replaced.st_gid)
    if replaced is not None:
        has_other_group = os.fstat(new_file).st_gid != replaced.st_gid
        withheld = _FOR_OTHERS | (_FOR_GROUP if has_other_group else 0)
        with suppress(PermissionError):  # such a container may refuse this to root as well
            os.fchmod(new_file, stat.S_IMODE(replaced.st_mode) & ~withheld)


def flush_folder(path: Path) -> None:
    """Write the names of a folder's files to the disk, if the file system and our rights allow."""
    try:
        flush(path)
    except OSError as error:
        if error.errno not in _CANNOT_FLUSH:
            raise


def flush(path: Path) -> None:
    """Write a file's content to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
