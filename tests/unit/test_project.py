"""The repository itself: what lies at its top, what may not stand in it, and what must agree."""

import ast
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from email.parser import BytesParser
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.support.fetching import run_patiently

ROOT = Path(__file__).parents[2]
TOP = {
    *("pyproject.toml", "README.md", "Makefile", "LICENSE", "DECISIONS.md", "requirements.lock"),
    *("pipelines", "lakestream_spark", "conf", "tests", "notebooks", "deploy"),
}
# Written in parts, so that this file does not hold what it looks for.
REGISTRIES = re.compile(
    "|".join(
        part.replace("_", r"\.")
        for part in (
            "py" + "pi_org",
            "python" + "hosted_org",
            "maven" + "_apache_org",
            "repo1?_maven" + "_org",
            "spark-" + "packages_org",
            "proxy_golang" + "_org",
            "registry_npm" + "js_org",
            "crates" + "_io",
        )
    )
)
MACHINE_PATHS = re.compile(r"(?<![\w.~}-])/(?:work|farm|root|home|Users)/")


def tracked() -> list[Path]:
    """Files that are in the repository, or would be with the next commit."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return [ROOT / name for name in done.stdout.split("\0") if name and (ROOT / name).is_file()]


def pyproject() -> dict[str, dict[str, object]]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def requirements() -> list[Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    groups = [project["dependencies"], *project["optional-dependencies"].values()]
    return [Requirement(text) for group in groups for text in group]


def locked() -> dict[str, Version]:
    pins = re.findall(r"^([\w.-]+)==(\S+)", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    return {canonicalize_name(name): Version(version) for name, version in pins}


def test_the_top_level_holds_what_the_map_says_and_nothing_else():
    names = {path.relative_to(ROOT).parts[0] for path in tracked()}
    assert {name for name in names if not name.startswith(".")} <= TOP


@pytest.mark.parametrize("pattern", [REGISTRIES, MACHINE_PATHS], ids=["registries", "paths"])
def test_no_file_names_a_package_registry_or_a_folder_of_one_machine(pattern):
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}"
        for path in tracked()
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), start=1)
        if pattern.search(line)
    ]
    assert found == []


def test_nothing_is_raised_where_older_pythons_would_pack_it_into_a_group():
    for path in tracked():
        if path.suffix == ".py":
            handled = [
                handler
                for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
                if isinstance(node, ast.TryStar)
                for handler in node.handlers
            ]
            raising = [
                f"{path.relative_to(ROOT)}:{node.lineno}"
                for handler in handled
                for node in ast.walk(handler)
                if isinstance(node, ast.Raise)
            ]
            assert not raising, "3.11.0 to 3.11.3 wrap what an `except*` raises"


def test_every_make_target_is_documented_and_phony():
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    assert targets == set(re.findall(r"^([a-z-]+):.*## \S.*\.$", makefile, re.MULTILINE))
    assert targets == set(re.findall(r"^\.PHONY: ([a-z-]+)$", makefile, re.MULTILINE))


def test_make_help_lists_every_target():
    makefile = (ROOT / "Makefile").read_text()
    done = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    listed = [line.split()[1] for line in done.stdout.splitlines()]
    assert sorted(listed) == sorted(set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE)))


@pytest.mark.parametrize("requirement", requirements(), ids=str)
def test_the_lock_satisfies_every_requirement(requirement):
    pins = locked()
    name = canonicalize_name(requirement.name)
    assert name in pins, "run `make lock`"
    assert requirement.specifier.contains(pins[name], prereleases=True), "run `make lock`"


def test_every_pin_of_the_lock_has_a_hash():
    blocks = re.split(r"\n(?=[\w.-]+==)", (ROOT / "requirements.lock").read_text())
    assert [block.splitlines()[0] for block in blocks[1:] if "--hash=sha256:" not in block] == []


def test_the_base_install_has_no_spark():
    base = {Requirement(text).name for text in pyproject()["project"]["dependencies"]}  # type: ignore[attr-defined]
    assert not base & {"pyspark", "delta-spark", "pandas", "asyncpg"}


def test_every_decision_is_numbered_and_short():
    sections = re.split(r"^## ", (ROOT / "DECISIONS.md").read_text(), flags=re.MULTILINE)[1:]
    assert [section.partition(".")[0] for section in sections] == [
        str(number) for number in range(1, len(sections) + 1)
    ]
    bodies = {part.splitlines()[0]: part.strip().splitlines()[1:] for part in sections}
    assert {title for title, body in bodies.items() if len([x for x in body if x]) > 15} == set()


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    return built


def test_the_wheel_holds_the_whole_package(wheel):
    packed = set(zipfile.ZipFile(wheel).namelist())
    package = ROOT / "lakestream_spark"
    files = {str(path.relative_to(ROOT)) for path in tracked() if path.is_relative_to(package)}
    # Beside the package and not in it: see the file.
    mapped = {"lakestream_spark/discovery/pyspark_lakestream.py"}
    assert files - packed == mapped
    top = {name.partition("/")[0].partition("-")[0] for name in packed}
    assert top == {"lakestream_spark", "pyspark_lakestream.py"}


@pytest.mark.parametrize("extra", ["", "jobs", "postgres", "quality"])
def test_the_wheel_asks_for_no_pyspark_where_a_platform_brings_its_own(wheel, extra):
    (name,) = (n for n in zipfile.ZipFile(wheel).namelist() if n.endswith(".dist-info/METADATA"))
    told = BytesParser().parsebytes(zipfile.ZipFile(wheel).read(name))
    assert {"jobs", "postgres", "quality", "spark"} <= set(told.get_all("Provides-Extra", []))
    asked = [Requirement(text) for text in told.get_all("Requires-Dist", [])]
    needed = {r.name for r in asked if r.marker is None or r.marker.evaluate({"extra": extra})}
    assert not needed & {"pyspark", "delta-spark"}
    assert "pyarrow" in needed


def test_spark_finds_the_data_source_in_the_wheel_quickly_and_without_extras(wheel, tmp_path):
    zipfile.ZipFile(wheel).extractall(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", FIND_SOURCES],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"lakestream {tmp_path / 'pyspark_lakestream.py'} []\n"


FIND_SOURCES = """
import sys
from importlib import import_module
from pkgutil import iter_modules

# As Spark does, in a process of its own, whenever a session first asks for a data source.
for info in iter_modules():
    if info.name.startswith("pyspark_"):
        module = import_module(info.name)
        slow = {"numba", "deltalake", "pyiceberg", "pydantic", "kio"} & set(sys.modules)
        print(module.DefaultSource.name(), module.__file__, sorted(slow))
"""


def test_reading_without_pyspark_says_what_to_install():
    code = "import sys; sys.modules['pyspark'] = None; import lakestream_spark as l; l.read"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    last = done.stderr.splitlines()[-1]
    assert last.endswith(
        "lakestream_spark.read needs pyspark: pip install 'lakestream-spark[spark]'"
    )


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_base_install_is_a_command_without_pyspark(wheel, tmp_path):
    uv = Path(sys.prefix) / ".bootstrap" / "bin" / "uv"
    if not uv.exists():
        pytest.skip("uv is not in .venv: run `make setup`")
    venv = tmp_path / "venv"
    python = venv / "bin" / "python"
    lock = ROOT / "requirements.lock"
    install = [uv, "pip", "install", "--quiet", "--python", python, "--constraint", lock, wheel]
    for command in ([uv, "venv", "--quiet", "--python", sys.executable, venv], install):
        done = run_patiently(list(map(str, command)))
        assert done.returncode == 0, done.stderr

    def output(*command: object) -> str:
        text = [str(word) for word in command]
        return subprocess.run(text, cwd=tmp_path, check=True, capture_output=True, text=True).stdout

    assert "Commands:" in output(venv / "bin" / "lakestream", "--help")
    assert "store.url" in output(venv / "bin" / "lakestream", "config", "show")
    find = "import lakestream_spark, importlib.util as u; print(u.find_spec('pyspark'))"
    assert output(python, "-c", find) == "None\n"
    assert output(python, "-c", START_A_BROKER, tmp_path) == "127.0.0.1\n"
    compact = [str(venv / "bin" / "lakestream"), "compact"]
    refused = subprocess.run(compact, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert refused.returncode == 2
    assert "pip install 'lakestream-spark[spark]'" in refused.stderr
    assert len(refused.stderr.splitlines()) == 1


@pytest.mark.long
@pytest.mark.parametrize(
    ("extra", "brings"),
    [
        ("postgres", "asyncpg"),
        ("sql", "duckdb"),
        ("spark", "pyspark"),
        ("jobs", "numba"),
        ("quality", "great-expectations"),
    ],
)
def test_an_extra_finds_all_that_it_asks_for(wheel, tmp_path, extra, brings):
    uv = Path(sys.prefix) / ".bootstrap" / "bin" / "uv"
    if not uv.exists():
        pytest.skip("uv is not in .venv: run `make setup`")
    venv = tmp_path / "venv"
    lock = ROOT / "requirements.lock"
    # Nothing is fetched: what an index offers, and whether it fits together, is enough.
    install = [uv, "pip", "install", "--dry-run", "--python", venv, "--constraint", lock]
    made = run_patiently([str(uv), "venv", "--quiet", "--python", sys.executable, str(venv)])
    assert made.returncode == 0, made.stderr
    done = run_patiently([*map(str, install), f"{wheel}[{extra}]"])
    assert done.returncode == 0, done.stderr
    assert re.search(rf"^ \+ {brings}==", done.stderr, re.MULTILINE), done.stderr


START_A_BROKER = """
import asyncio, sys
from lakestream_spark.app import running_broker
from lakestream_spark.settings import Entry, load

async def main():
    flags = {"data": sys.argv[1], "broker.port": "0"}
    entries = [Entry(key=key, value=value, origin="test") for key, value in flags.items()]
    async with running_broker(load(environ={}, flags=entries).settings) as broker:
        print(broker.address.host)

asyncio.run(main())
"""
