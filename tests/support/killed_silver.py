"""pipelines/silver.py, whose process dies once the first of its two tables has a batch."""

import os
from typing import Any

from lakestream_spark.spark.silver import pipeline, tables
from tests.support.deployment import ROOT, load_script

insert = tables.insert_new


def insert_and_die(*arguments: Any) -> None:
    insert(*arguments)
    os._exit(9)


if __name__ == "__main__":
    vars(pipeline)["insert_new"] = insert_and_die
    load_script(ROOT / "pipelines" / "silver.py").silver()
