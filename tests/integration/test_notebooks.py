"""Every notebook runs from the first cell to the last, says what it does, and leaves nothing."""

import re
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.support.notebooks import NOTEBOOKS, executed, read

notebooks = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def processes_in(folder: Path) -> list[psutil.Process]:
    """Those that were told to work below the folder."""
    return [
        process
        for process in psutil.process_iter(["cmdline"])
        if any(str(folder) in word for word in process.info["cmdline"] or ())
    ]


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """What a notebook that failed left running is killed at the end."""
    yield tmp_path
    for process in processes_in(tmp_path):
        process.kill()


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.filterwarnings("ignore::DeprecationWarning:zmq")
@pytest.mark.filterwarnings("ignore::DeprecationWarning:jupyter_client")
@notebooks
async def test_the_notebook_runs_and_stops_what_it_started(path: Path, folder: Path) -> None:
    await executed(path, folder)
    assert processes_in(folder) == []
    assert list(folder.glob("lakestream-*")) == []


@notebooks
def test_every_cell_has_a_sentence_before_it(path: Path) -> None:
    cells = read(path).cells
    assert [cell.cell_type for cell in cells[1:]] == ["markdown", "code"] * (len(cells) // 2)
    prose = [cell.source for cell in cells if cell.cell_type == "markdown"]
    assert [text for text in prose if not text.rstrip().endswith(".")] == []


@notebooks
def test_what_is_stored_is_a_whole_run_without_paths_and_errors(path: Path) -> None:
    code = [cell for cell in read(path).cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    kinds = {output.output_type for cell in code for output in cell.outputs}
    assert kinds <= {"stream", "execute_result", "display_data"}
    told = [
        "".join(output.get("text", "") or output.data.get("text/plain", ""))
        for cell in code
        for output in cell.outputs
    ]
    assert [text for text in told if re.search(r"(?<![\w.])/(tmp|var|private)/|\x1b", text)] == []
