"""The code that the README shows, for tests to run."""

import re
from pathlib import Path

_README = Path(__file__).parents[2] / "README.md"


def python_blocks(heading: str) -> list[str]:
    """The blocks of Python below a heading of the second level."""
    section = _README.read_text(encoding="utf-8").partition(f"\n## {heading}\n")[2]
    return re.findall(r"```python\n(.*?)```", section.partition("\n## ")[0], re.DOTALL)
