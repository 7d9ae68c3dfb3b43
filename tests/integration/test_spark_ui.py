"""Spark's own pages, for whoever names a port: on this host, and nowhere else."""

import socket
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlparse
from urllib.request import urlopen

import pytest

ROOT = Path(__file__).parents[2]
PROGRAM = """
import sys
from pathlib import Path
from lakestream_spark.spark.session import session_when_asked
from tests.support.embedded import catalog_spec
with session_when_asked(catalog_spec(Path(sys.argv[1])), master="local[1]", ui_port=0) as session:
    print(session().sparkContext.uiWebUrl, flush=True)
    sys.stdin.readline()
"""


@pytest.mark.spark
@pytest.mark.slow
def test_a_named_port_shows_sparks_pages_to_this_host_only(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        place = urlparse(url)
        assert place.hostname == "127.0.0.1"
        with urlopen(f"{url}/jobs/", timeout=60) as page:
            assert page.status == 200
            assert b"Spark Jobs" in page.read()
        assert place.port is not None
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.2", place.port), timeout=10)
        process.communicate("\n", timeout=120)
    assert process.returncode == 0
