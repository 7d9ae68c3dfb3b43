"""What an `OSError` of a local store means to the caller, in one sentence."""

import errno

from lakestream_spark.core.errors import LakestreamError, Misconfigured, NotFound, Unavailable

_ABSENT = {errno.ENOENT, errno.ENOTDIR, errno.EISDIR}
_FULL = {errno.ENOSPC, errno.EDQUOT}
_NOT_ALLOWED = {errno.EACCES, errno.EROFS}
_NO_HARD_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.EXDEV}
_IN_THE_WAY = {errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.ELOOP}


def cannot_read(error: OSError, url: str, key: str) -> LakestreamError:
    """The error for a read, a size or a listing that failed."""
    if error.errno in _ABSENT:
        return NotFound("no such object", store=url, key=key)
    return _refused(error, url, key) or _failing(error, url, key)


def cannot_write(error: OSError, url: str, key: str) -> LakestreamError:
    """The error for a put or a delete that failed."""
    if error.errno in _FULL:
        return Unavailable(f"the disk of {url} is full", key=key)
    if error.errno in _NO_HARD_LINKS:
        return Misconfigured(
            f"the file system of {url} does not allow hard links", key=key, reason=error.strerror
        )
    if error.errno in _IN_THE_WAY:
        return Misconfigured(f"{url} cannot hold this key", key=key, reason=error.strerror)
    return _refused(error, url, key) or _failing(error, url, key)


def _refused(error: OSError, url: str, key: str) -> LakestreamError | None:
    if error.errno not in _NOT_ALLOWED:
        return None
    return Misconfigured(f"this process may not use {url}", key=key, reason=error.strerror)


def _failing(error: OSError, url: str, key: str) -> LakestreamError:
    return Unavailable(f"the file system of {url} fails", key=key, reason=error.strerror)
