"""Errors of a catalog or its storage that does not answer, as ours."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pydantic
from pyiceberg.exceptions import RESTError, ValidationError
from sqlalchemy.exc import SQLAlchemyError

from lakestream_spark.core.errors import Unavailable

try:
    from botocore.exceptions import BotoCoreError, ClientError
except ModuleNotFoundError:  # Only catalogs of AWS need it.
    _OF_AWS: tuple[type[Exception], ...] = ()
else:
    _OF_AWS = (BotoCoreError, ClientError)

OUTAGES: Final[tuple[type[Exception], ...]] = (OSError, SQLAlchemyError, RESTError, *_OF_AWS)
"""What the libraries below raise when something does not answer; timeouts are OS errors."""
DAMAGES: Final[tuple[type[Exception], ...]] = (
    *(ValidationError, pydantic.ValidationError, UnicodeDecodeError),
)
"""What pyiceberg raises for a metadata file that is torn, or is none."""


@contextmanager
def asking(table: tuple[str, ...]) -> Iterator[None]:
    """Raises `Unavailable` when what is asked for in the block does not answer."""
    try:
        yield
    except OUTAGES as error:
        raise Unavailable(
            f"the catalog or its storage does not answer: {error!r}", table=".".join(table)
        ) from error
