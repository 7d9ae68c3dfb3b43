"""Buckets of S3, Google Cloud Storage and Azure, through obstore.

A put creates or fails: the store's own condition forbids replacing. "Exists" may be the echo of our
own put whose answer was lost, or a conflict that left nothing, so the object is read and compared.
"""

from collections.abc import AsyncIterator, Sequence

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import AzureStore, GCSStore, S3Store

from lakestream_spark.core.errors import NotFound, Unavailable
from lakestream_spark.objectstore.cloud_errors import from_obstore
from lakestream_spark.objectstore.ranges import plan_ranges
from lakestream_spark.objectstore.store import (
    Data,
    ObjectInfo,
    Ranges,
    check_key,
    check_prefix,
    check_ranges,
    check_same,
    short_read,
)

_PAGE = 1_000
_ERRORS = (BaseError, OSError, ValueError)


class CloudStore:
    """Objects in one bucket, below the prefix that its URL names."""

    def __init__(self, bucket: S3Store | GCSStore | AzureStore, url: str) -> None:
        self.bucket = bucket
        self._url = url

    @property
    def url(self) -> str:
        return self._url

    async def put(self, key: str, data: Data) -> None:
        check_key(key)
        try:
            # One request and no multipart: only a single PUT can be conditional.
            await obstore.put_async(self.bucket, key, data, mode="create", use_multipart=False)
        except AlreadyExistsError:
            await self._compare(key, data)
        except _ERRORS as error:
            raise from_obstore(error, self._url, key) from None

    async def get(self, key: str) -> bytes:
        check_key(key)
        try:
            found = await obstore.get_async(self.bucket, key)
            data = (await found.bytes_async()).to_bytes()
        except _ERRORS as error:
            raise from_obstore(error, self._url, key) from None
        if len(data) != (size := found.meta["size"]):
            raise short_read(self._url, key, start=0, expected=size, actual=len(data))
        return data

    async def get_ranges(self, key: str, starts: Sequence[int], lengths: Sequence[int]) -> Ranges:
        check_key(key)
        check_ranges(starts, lengths)
        plan = plan_ranges(starts, lengths)
        try:
            found = await obstore.get_ranges_async(
                self.bucket,
                key,
                starts=[run.start for run in plan.runs],
                ends=[run.end for run in plan.runs],
                coalesce=0,
            )
        except _ERRORS as error:
            raise from_obstore(error, self._url, key) from None
        for (start, end), data in zip(plan.runs, found, strict=True):
            if len(data) != end - start:
                raise short_read(
                    self._url, key, start=start, expected=end - start, actual=len(data)
                )
        return plan.cut([memoryview(data) for data in found])

    async def head(self, key: str) -> int:
        check_key(key)
        try:
            return (await obstore.head_async(self.bucket, key))["size"]
        except _ERRORS as error:
            raise from_obstore(error, self._url, key) from None

    async def delete(self, keys: Sequence[str]) -> None:
        for key in keys:
            check_key(key)
        try:
            await obstore.delete_async(self.bucket, keys)
        except _ERRORS as error:
            failure = from_obstore(error, self._url, ", ".join(keys[:3]))
            if not isinstance(failure, NotFound):
                raise failure from None
            await self._delete_one_by_one(keys)

    async def list(self, prefix: str) -> AsyncIterator[ObjectInfo]:
        check_prefix(prefix)
        try:
            async for page in obstore.list(self.bucket, prefix or None, chunk_size=_PAGE):
                for found in page:
                    modified_ms = int(found["last_modified"].timestamp() * 1_000)
                    yield ObjectInfo(found["path"], found["size"], modified_ms)
        except _ERRORS as error:
            raise from_obstore(error, self._url, prefix) from None

    async def _compare(self, key: str, data: Data) -> None:
        try:
            stored = await self.get(key)
        except NotFound:
            raise Unavailable(f"{self._url} had a conflict and stored nothing", key=key) from None
        check_same(self._url, key, stored, data)

    async def _delete_one_by_one(self, keys: Sequence[str]) -> None:
        """Google and Azure answer a missing object with an error and may leave the rest."""
        for key in keys:
            try:
                await obstore.delete_async(self.bucket, key)
            except _ERRORS as error:
                failure = from_obstore(error, self._url, key)
                if not isinstance(failure, NotFound):
                    raise failure from None
