"""A Spark standalone cluster: a master and workers as processes of their own."""

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from queue import Empty, Queue
from typing import Final

import pyspark

from lakestream_spark.spark.jars import jar_paths
from tests.support.ports import free_port

HOME: Final = Path(pyspark.__file__).parent
SPARK_CONF: Final = Path(__file__).parents[2] / "pipelines" / "spark.conf"
_START_S: Final = 180.0
_HOST: Final = "127.0.0.1"
_JVM: Final = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


@contextmanager
def standalone_spark(
    folder: Path, *, cores: int = 2, hosts: Sequence[str] = (_HOST,)
) -> Iterator[str]:
    """The master's URL, once a worker on each of the hosts has registered with it."""
    port = free_port()
    master = f"spark://{_HOST}:{port}"
    common = ("--webui-port", "0")
    main = "org.apache.spark.deploy"
    with ExitStack() as stack:
        words = (f"{main}.master.Master", *common, "--host", _HOST, "--port", str(port))
        _until(stack.enter_context(_java(*words)), r"I have been elected leader")
        room = ("--cores", str(cores), "--memory", "1g", "--work-dir", str(folder / "work"))
        started = [
            stack.enter_context(
                _java(f"{main}.worker.Worker", *common, "--host", host, *room, master)
            )
            for host in hosts
        ]
        for told in started:
            _until(told, r"Successfully registered with master")
        yield master


def spark_conf() -> dict[str, str]:
    """What pipelines/spark.conf says."""
    lines = SPARK_CONF.read_text(encoding="utf-8").splitlines()
    told = [line.split(maxsplit=1) for line in lines if line and not line.startswith("#")]
    return dict(told)


def spark_submit(
    master: str, program: Path, *arguments: str, conf: Mapping[str, str], within_s: float = 400.0
) -> subprocess.CompletedProcess[str]:
    """The program, run to its end with its driver here."""
    settings = {
        "spark.jars": ",".join(map(str, jar_paths())),
        "spark.driver.host": _HOST,
        "spark.driver.bindAddress": _HOST,
        "spark.ui.enabled": "false",
        "spark.executor.memory": "512m",
        "spark.executor.defaultJavaOptions": " ".join(_JVM[1:]),
        **conf,
    }
    command = [str(HOME / "bin" / "spark-submit"), "--master", master]
    for key, value in settings.items():
        command += ["--conf", f"{key}={value}"]
    return subprocess.run(
        [*command, str(program), *arguments],
        env=_environment(),
        capture_output=True,
        text=True,
        timeout=within_s,
        check=False,
    )


def _environment() -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("LAKESTREAM_")}
    spark = {"SPARK_HOME": str(HOME), "SPARK_SCALA_VERSION": "2.13"}
    return {**kept, **spark, "PYSPARK_PYTHON": sys.executable}


@contextmanager
def _java(main: str, *arguments: str) -> Iterator["Queue[str]"]:
    """A JVM with Spark's jars, and the lines it prints; killed when the block ends."""
    java = Path(home) / "bin" / "java" if (home := os.environ.get("JAVA_HOME")) else Path("java")
    command = [str(java), *_JVM, *_opened_modules(), "-cp", str(HOME / "jars" / "*"), main]
    process = subprocess.Popen(
        [*command, *arguments],
        env=_environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    lines: Queue[str] = Queue()

    def pump() -> None:
        assert process.stderr is not None
        for line in process.stderr:
            lines.put(line)
        process.stderr.close()

    reader = threading.Thread(target=pump, daemon=True)
    reader.start()
    try:
        yield lines
    finally:
        process.kill()
        process.wait()
        reader.join(30)


def _opened_modules() -> Sequence[str]:
    """What Spark needs of Java 17, as its own launcher opens it."""
    packages = ("java.lang", "java.lang.invoke", "java.net", "java.nio", "java.util")
    inner = ("sun.nio.ch", "sun.nio.cs", "sun.util.calendar")
    return [f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in (*packages, *inner)]


def _until(lines: "Queue[str]", pattern: str) -> None:
    seen: list[str] = []
    waited = 0.0
    while waited < _START_S:
        with suppress(Empty):
            line = lines.get(timeout=0.5)
            seen.append(line)
            if re.search(pattern, line):
                return
            continue
        waited += 0.5
    raise AssertionError("".join(seen))
