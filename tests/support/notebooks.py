"""Notebooks, executed from the first cell to the last in a kernel of their own.

    python -m tests.support.notebooks

stores what the cells print and draw, so that the notebooks can be read without being run.
"""

import asyncio
import os
import tempfile
from pathlib import Path
from typing import Any, Final

import nbformat
from nbclient import NotebookClient

NOTEBOOKS: Final = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))


def read(path: Path) -> Any:
    return nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]


async def executed(path: Path, folder: Path) -> Any:
    """The notebook with its outputs; whatever it makes lies under the folder."""
    notebook = read(path)
    client = NotebookClient(
        notebook,
        timeout=200,
        startup_timeout=200,
        record_timing=False,
        resources={"metadata": {"path": str(folder)}},
    )
    kept = {k: v for k, v in os.environ.items() if not k.startswith("LAKESTREAM_")}
    # As `make` does: without bytecode every process compiles its modules anew, for seconds.
    kept.pop("PYTHONDONTWRITEBYTECODE", None)
    await client.async_execute(env={**kept, "TMPDIR": str(folder)})
    return notebook


def store(notebook: Any, path: Path) -> None:
    """Without what programs say on their standard error, and without the machine's Python."""
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [each for each in cell.outputs if each.get("name") != "stderr"]
    notebook.metadata.language_info = {"name": "python"}
    nbformat.write(notebook, path)  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    for each in NOTEBOOKS:
        with tempfile.TemporaryDirectory(prefix="lakestream-") as scratch:
            store(asyncio.run(executed(each, Path(scratch))), each)
