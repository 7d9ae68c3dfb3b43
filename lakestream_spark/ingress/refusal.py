"""One item of an administrative request that is refused: the code and the sentence for it.

Such requests name many things, and what is wrong with one of them is a value in the answer.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Hashable, Iterable
from typing import Any, Final, NamedTuple, TypeVar

from kio.schema.errors import ErrorCode

from lakestream_spark.core.errors import LakestreamError
from lakestream_spark.ingress.errors import error_code

T = TypeVar("T")
Key = TypeVar("Key", bound=Hashable)

MAX_NEW_PARTITIONS: Final = 10_000
"""One request makes no more partitions than this."""


class Refusal(Exception):
    """Raised while an item is looked at, answered as a value."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class Outcome(NamedTuple):
    """What becomes of one item: a result, or a code with a message."""

    result: Any = None
    code: ErrorCode = ErrorCode.none
    message: str | None = None


async def outcome(doing: Awaitable[object]) -> Outcome:
    """The outcome of one item; errors of the log get their Kafka code."""
    try:
        return Outcome(await doing)
    except Refusal as refused:
        return Outcome(None, refused.code, refused.message)
    except LakestreamError as error:
        return Outcome(None, error_code(error), str(error))


def repeated(items: Iterable[T], key: Callable[[T], Key]) -> set[Key]:
    """The keys that come more than once."""
    return {each for each, count in Counter(map(key, items)).items() if count > 1}
