"""What a crash, a full disk and a stranger do to a folder of objects."""

import asyncio
import hashlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakestream_spark.core.errors import Misconfigured, Unavailable
from lakestream_spark.objectstore import files
from lakestream_spark.objectstore.local import LocalStore

_WRITER = """
import asyncio, hashlib, os, sys
from pathlib import Path
from lakestream_spark.objectstore.local import LocalStore

async def write(store, task):
    n = 0
    while True:
        body = os.urandom(1 + (n * 7919) % 200_000)
        await store.put(f"{task}/{n:06d}", hashlib.sha256(body).digest() + body)
        print(f"{task}/{n:06d}", flush=True)
        n += 1

async def main():
    store = LocalStore(Path(sys.argv[1]))
    await asyncio.gather(*(write(store, task) for task in range(4)))

asyncio.run(main())
"""


async def test_every_visible_object_is_whole_after_a_kill(tmp_path: Path):
    acknowledged: set[str] = set()
    for run in range(5):
        writer = subprocess.Popen(
            [sys.executable, "-c", _WRITER, str(tmp_path / str(run))],
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
        )
        assert writer.stdout is not None
        first = writer.stdout.readline()
        time.sleep(0.05 + 0.07 * run)
        writer.send_signal(signal.SIGKILL)
        rest, _ = writer.communicate()
        acknowledged |= {f"{run}/{line}" for line in (first + rest).decode().split("\n")[:-1]}
    store = LocalStore(tmp_path)
    found = {info.key: info.size async for info in store.list("")}
    assert acknowledged <= found.keys()
    for key, size in found.items():
        data = await store.get(key)
        assert len(data) == size
        assert hashlib.sha256(data[32:]).digest() == data[:32]


async def test_the_bytes_are_synced_before_the_name_and_the_name_before_the_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    store = LocalStore(tmp_path)
    await store.put("a/first", b"")
    steps: list[str] = []
    fsync, link = os.fsync, os.link

    def seen_fsync(fd: int) -> None:
        name = Path(f"/proc/self/fd/{fd}").readlink().name
        steps.append("sync file" if name.startswith(".tmp-") else f"sync folder {name}")
        fsync(fd)

    def seen_link(source: str, target: str) -> None:
        steps.append(f"link {Path(target).name}")
        link(source, target)

    monkeypatch.setattr(os, "fsync", seen_fsync)
    monkeypatch.setattr(os, "link", seen_link)
    await store.put("a/second", b"1")
    assert steps == ["sync file", "link second", "sync folder a"]
    steps.clear()
    await store.put("b/c/third", b"1")
    place = [f"sync folder {name}" for name in ("b", tmp_path.name, tmp_path.parent.name)]
    assert steps[:3] == place
    assert steps[-3:] == ["sync file", "link third", "sync folder c"]


async def test_a_name_that_was_there_is_synced_before_it_counts_as_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    store = LocalStore(tmp_path)
    await store.put("k", b"1")
    synced: list[str] = []
    fsync = os.fsync

    def seen_fsync(fd: int) -> None:
        synced.append(Path(f"/proc/self/fd/{fd}").readlink().name)
        fsync(fd)

    monkeypatch.setattr(os, "fsync", seen_fsync)
    await store.put("k", b"1")
    assert synced[-2:] == ["k", tmp_path.name]


async def test_leftovers_of_a_crash_are_never_listed_and_go_when_old(tmp_path: Path):
    store = LocalStore(tmp_path)
    await store.put("a/object", b"1")
    young, old, foreign = (tmp_path / "a" / name for name in (".tmp-1", ".tmp-2", ".other"))
    hours_ago = time.time() - 2 * files.LEFTOVER_AFTER_MS / 1000
    for path in (young, old, foreign):
        path.write_bytes(b"torn")
    for path in (old, foreign):
        os.utime(path, (hours_ago, hours_ago))
    assert [info.key async for info in store.list("")] == ["a/object"]
    assert (young.exists(), old.exists(), foreign.exists()) == (True, False, True)


async def test_folders_that_are_empty_for_long_go_and_come_back_with_the_next_put(tmp_path: Path):
    store = LocalStore(tmp_path)
    await store.put("epoch/1", b"1")
    await store.delete(["epoch/1"])
    assert [info async for info in store.list("")] == []
    assert (tmp_path / "epoch").is_dir()
    hours_ago = time.time() - 2 * files.LEFTOVER_AFTER_MS / 1000
    os.utime(tmp_path / "epoch", (hours_ago, hours_ago))
    assert [info async for info in store.list("")] == []
    assert not (tmp_path / "epoch").exists()
    await store.put("epoch/2", b"2")
    assert await store.get("epoch/2") == b"2"


async def test_a_failed_put_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    store = LocalStore(tmp_path)
    await store.put("a/first", b"1")

    def broken(fd: int) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", broken)
        with pytest.raises(Unavailable, match="fails"):
            await store.put("a/second", b"2")
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["first"]
    await store.put("a/second", b"2")


async def test_a_file_in_the_place_of_a_folder_is_a_matter_of_settings(tmp_path: Path):
    store = LocalStore(tmp_path)
    await store.put("a", b"1")
    with pytest.raises(Misconfigured):
        await store.put("a/b", b"1")


def test_the_folder_must_be_absolute():
    with pytest.raises(Misconfigured, match="absolute"):
        LocalStore(Path("relative"))


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """A file system of one megabyte."""
    folder = Path(tempfile.mkdtemp(prefix="lakestream-disk-"))
    options = ["-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    mounted = subprocess.run(["mount", *options], capture_output=True, text=True, check=False)
    if mounted.returncode != 0:
        folder.rmdir()
        pytest.skip(f"no small disk can be mounted here: {mounted.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)
        folder.rmdir()


async def test_a_full_disk_is_unavailable_and_works_again_once_there_is_space(small_disk: Path):
    store = LocalStore(small_disk)
    await store.put("ballast", b"x" * 700_000)
    puts = [store.put(f"a/{i}", bytes([i]) * 200_000) for i in range(4)]
    results = await asyncio.gather(*puts, return_exceptions=True)
    refused = [result for result in results if result is not None]
    assert refused
    assert all(isinstance(result, Unavailable) for result in refused)
    assert f"the disk of {store.url} is full" in str(refused[0])
    found = {info.key: info.size async for info in store.list("a/")}
    assert found == {f"a/{i}": 200_000 for i, result in enumerate(results) if result is None}
    leftovers = [path.name for path in small_disk.rglob(".tmp-*")]
    assert leftovers == []
    await store.delete(["ballast"])
    for i in range(4):
        await store.put(f"a/{i}", bytes([i]) * 200_000)
        assert await store.get(f"a/{i}") == bytes([i]) * 200_000


async def test_a_disk_that_is_read_only_is_a_matter_of_settings(small_disk: Path):
    store = LocalStore(small_disk)
    await store.put("k", b"1")
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    with pytest.raises(Misconfigured, match="may not use"):
        await store.put("other", b"1")
    with pytest.raises(Misconfigured, match="may not use"):
        await store.delete(["k"])
    assert await store.get("k") == b"1"
