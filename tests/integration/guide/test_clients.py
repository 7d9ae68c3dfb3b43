"""The programs of the README in other languages, run against a broker."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakestream_spark.spark.jars import require_java
from tests.support.fetching import run_patiently
from tests.support.franz import SOURCE
from tests.support.ingress_process import Listening, ingress
from tests.support.kafka import Received, consume
from tests.support.kafka_jars import kafka_classpath
from tests.support.readme import blocks

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Listening]:
    with ingress(tmp_path_factory.mktemp("lake")) as process:
        (listening,) = process.ready()
        yield listening
        assert process.stop() == 0


def written(heading: str, name: str, folder: Path, broker: Listening) -> Path:
    """The program, with the address of the broker for the README's and a topic of its own."""
    (block,) = blocks(heading)
    text = block.text.replace("127.0.0.1:9092", broker.kafka).replace("clicks", f"clicks-{heading}")
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


def told(command: list[str]) -> str:
    """What the program prints; it must succeed."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def sent(heading: str, broker: Listening) -> Received:
    (record,) = consume(broker.kafka, f"clicks-{heading}", offset=0, count=1)
    return record


@pytest.mark.spark  # The jars come by Spark's resolver.
def test_the_java_program_produces(broker: Listening, tmp_path: Path) -> None:
    program = written("Java", "Produce.java", tmp_path, broker)
    command = [str(require_java()), "-cp", kafka_classpath(), str(program)]
    assert told(command) == "clicks-Java-0@0\n"
    assert sent("Java", broker)[2:4] == (b"c-0007", b'{"page": "/tea"}')


def test_the_go_program_produces(broker: Listening, tmp_path: Path) -> None:
    go = shutil.which("go")
    assert go is not None, "Go is missing: install it from https://go.dev/dl"
    written("Go", "main.go", tmp_path, broker)
    for name in ("go.mod", "go.sum"):
        shutil.copy(SOURCE / name, tmp_path)
    built = run_patiently([go, "build", "-o", "produce", "."], cwd=tmp_path)
    assert built.returncode == 0, built.stderr
    assert told([str(tmp_path / "produce")]) == "clicks-Go 0 0\n"
    assert sent("Go", broker)[2:4] == (b"c-0007", b'{"page": "/tea"}')
