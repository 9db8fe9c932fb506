"""Reading files that somebody else put there: regular ones alone, and never through a link."""

from __future__ import annotations

import errno
import os
import stat


def read_regular(path: str | os.PathLike[str], limit: int, *, dir_fd: int | None = None) -> bytes:
    """The first `limit` bytes of a regular file.

    Args:
        path: The last part of it may be no symbolic link.
        limit: Bytes.
        dir_fd: Descriptor of the folder that `path` is relative to.

    Raises:
        OSError: It is not there, may not be read, or is no regular file.
        ValueError: `path` holds a NUL character.
    """
    # without O_NONBLOCK, opening a pipe would wait for somebody who writes into it
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=dir_fd)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "is no regular file", str(path))
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read(limit)
    finally:
        os.close(descriptor)
