"""What tests fetch and the ports they take: tried again, one at a time, never twice."""

import subprocess
import sys
from pathlib import Path

from tests.support.fetching import one_at_a_time, run_patiently
from tests.support.ports import free_port

FAILS_TWICE = """
import pathlib, sys
tries = pathlib.Path(sys.argv[1])
tries.write_text(tries.read_text() + "x" if tries.exists() else "x")
sys.exit(0 if len(tries.read_text()) == 3 else 1)
"""
TAKES_THE_LOCK = """
import pathlib, sys
from tests.support.fetching import one_at_a_time
print("here", flush=True)
with one_at_a_time(pathlib.Path(sys.argv[1])):
    print("mine", flush=True)
"""
ROOT = Path(__file__).parents[3]


def test_a_command_that_fails_twice_is_run_a_third_time(tmp_path: Path) -> None:
    command = [sys.executable, "-c", FAILS_TWICE, str(tmp_path / "tries")]
    assert run_patiently(command, pause_s=0.0).returncode == 0
    assert (tmp_path / "tries").read_text() == "xxx"


def test_a_command_that_always_fails_is_given_up(tmp_path: Path) -> None:
    tries = tmp_path / "tries"
    tries.write_text("xxx")
    command = [sys.executable, "-c", FAILS_TWICE, str(tries)]
    assert run_patiently(command, pause_s=0.0).returncode == 1
    assert tries.read_text() == "xxxxxx"


def test_two_processes_do_not_build_in_one_folder_at_once(tmp_path: Path) -> None:
    command = [sys.executable, "-c", TAKES_THE_LOCK, str(tmp_path)]
    with one_at_a_time(tmp_path):
        other = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        assert other.stdout is not None
        assert other.stdout.readline() == "here\n"
        assert other.poll() is None
    rest, _ = other.communicate()
    assert (rest, other.returncode) == ("mine\n", 0)


def test_a_port_is_never_given_twice() -> None:
    ports = [free_port() for _ in range(50)]
    assert len(set(ports)) == 50
