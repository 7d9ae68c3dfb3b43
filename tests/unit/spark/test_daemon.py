"""What the daemon of Python workers leaves out of its path."""

import sys
from pathlib import Path

import pyspark

from lakestream_spark.spark.daemon import without_zips

HOME = Path(pyspark.__file__).parent
OWN = [str(HOME / "python/lib/pyspark.zip"), str(HOME / "python/lib/py4j-src.zip")]
UNPACKED = [each for each in sys.path if not each.endswith(".zip")]


def test_zips_of_the_installed_pyspark_are_left_out() -> None:
    assert without_zips(["", *OWN, *UNPACKED]) == ["", *UNPACKED]


def test_zips_of_others_stay() -> None:
    others = ["/opt/spark/python/lib/pyspark.zip", "/job/lib/own.zip", "own.zip"]
    assert without_zips([*others, *UNPACKED]) == [*others, *UNPACKED]


def test_zips_stay_where_pyspark_is_not_installed() -> None:
    assert without_zips([*OWN, "/nowhere"]) == [*OWN, "/nowhere"]
