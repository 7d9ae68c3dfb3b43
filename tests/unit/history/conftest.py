from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.history import LocalHistory, local_history
from tests.support.table_fixtures import files, metadata, tables, topic

__all__ = ["files", "metadata", "tables", "topic"]


@pytest.fixture
def history(tmp_path: Path) -> Iterator[LocalHistory]:
    with local_history(tmp_path) as opened:
        yield opened
