"""What the daemon of Python workers leaves out of its path."""

import sys
from pathlib import Path
from zipfile import ZipFile
from zipimport import zipimporter

import pyspark

from lakestream_spark.spark.daemon import forget_archives, without_archives

HOME = Path(pyspark.__file__).parent
OWN = [
    str(HOME / each)
    for each in ("python/lib/pyspark.zip", "python/lib/py4j-src.zip", "jars/spark-core_2.13.jar")
]
UNPACKED = [each for each in sys.path if not each.endswith((".zip", ".jar"))]


def test_archives_of_the_installed_pyspark_are_left_out() -> None:
    assert without_archives(["", *OWN, *UNPACKED]) == ["", *UNPACKED]


def test_archives_of_others_stay() -> None:
    others = ["/opt/spark/python/lib/pyspark.zip", "/job/lib/own.zip", "own.zip", "/opt/own.jar"]
    assert without_archives([*others, *UNPACKED]) == [*others, *UNPACKED]


def test_archives_stay_where_pyspark_is_not_installed() -> None:
    assert without_archives([*OWN, "/nowhere"]) == [*OWN, "/nowhere"]


def test_an_archive_that_left_the_path_is_not_read_again(tmp_path: Path, monkeypatch) -> None:
    kept, left = str(tmp_path / "kept.zip"), str(tmp_path / "left.zip")
    for each in (kept, left):
        with ZipFile(each, "w") as made:
            made.writestr("inside/module.py", "")
    known = {each: zipimporter(each) for each in (kept, left, f"{left}/inside")}
    monkeypatch.setattr(sys, "path_importer_cache", {**known, "/folder": None})
    forget_archives([kept, "/folder"])
    assert set(sys.path_importer_cache) == {kept, "/folder"}
