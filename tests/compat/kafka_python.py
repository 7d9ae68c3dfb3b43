"""The names of kafka-python, and what its import and its end need."""

import gc
import warnings
from collections.abc import Iterator
from typing import Any, Final

import pytest

with warnings.catch_warnings():
    # It reads its own files in a way that Python has deprecated.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import (  # type: ignore[import-untyped]
        KafkaAdminClient,
        KafkaConsumer,
        KafkaProducer,
        TopicPartition,
    )
    from kafka.admin import NewTopic  # type: ignore[import-untyped]
    from kafka.errors import TopicAlreadyExistsError  # type: ignore[import-untyped]

__all__ = [
    "PATIENT",
    "WITHIN_S",
    "KafkaAdminClient",
    "KafkaConsumer",
    "KafkaProducer",
    "NewTopic",
    "TopicAlreadyExistsError",
    "TopicPartition",
    "sockets_it_forgets",
]

WITHIN_S: Final = 120
PATIENT: Final[dict[str, Any]] = {"bootstrap_timeout_ms": WITHIN_S * 1000}


@pytest.fixture(autouse=True)
def sockets_it_forgets() -> Iterator[None]:
    """It leaves the sockets by which it wakes itself to the garbage collector."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
