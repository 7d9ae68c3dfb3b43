"""The S3 server of `tests/support`, for the tests of this folder."""

from tests.support.s3 import s3_server as s3_server
