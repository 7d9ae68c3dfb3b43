import pytest

from lakestream_spark.table.places import canonical, relative


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ("file:///a/b", "/a/b"),
        ("file:/a/b", "/a/b"),
        ("/a/b", "/a/b"),
        ("s3a://bucket/a", "s3://bucket/a"),
        ("s3://bucket/a", "s3://bucket/a"),
        ("gs://bucket/file:/a", "gs://bucket/file:/a"),
    ],
)
def test_every_spelling_of_a_place_becomes_one(place, expected):
    assert canonical(place) == expected


def test_place_is_relative_to_a_root_in_another_spelling():
    assert relative("file:/lake/_data/f", "file:///lake") == "_data/f"
    assert relative("s3a://b/lake/_data/f", "s3://b/lake/") == "_data/f"


def test_sibling_with_the_same_beginning_is_not_below_the_root():
    assert relative("/lake-2/f", "/lake") is None
