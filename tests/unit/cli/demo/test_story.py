"""The story holds only when every chapter was told, in its order."""

import pytest

from lakestream_spark.cli.demo.chapters import DOING, SCRIPT
from lakestream_spark.cli.demo.story import CHAPTERS, Chapter, Story


def chapter(name: str) -> Chapter:
    return Chapter(name=name, text="it happened", at_s=1.0)


def test_holds_once_every_chapter_was_told():
    story = Story()
    for number, name in enumerate(CHAPTERS):
        assert not story.held
        assert story.next == name
        assert story.missing == CHAPTERS[number:]
        story.tell(chapter(name))
    assert story.held
    assert story.next is None
    assert story.missing == ()


@pytest.mark.parametrize("name", ["committed", "verified", "nothing"])
def test_no_chapter_is_skipped_or_told_twice(name: str):
    story = Story()
    with pytest.raises(ValueError, match="started comes next"):
        story.tell(chapter(name))
    story.tell(chapter("started"))
    with pytest.raises(ValueError, match="produced comes next"):
        story.tell(chapter("started"))


def test_every_chapter_has_its_script():
    assert tuple(SCRIPT) == CHAPTERS
    assert tuple(DOING) == CHAPTERS
