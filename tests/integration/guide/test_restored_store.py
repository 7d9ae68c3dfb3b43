"""What the README says of a metadata store that is older than the tables: the commands tell it."""

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.support.reading import lake_in
from tests.support.shell import Shell


def told_by_doctor(shell: Shell) -> list[dict[str, Any]]:
    return list(json.loads(shell.run("doctor", "--json").out))


def test_a_restored_store_that_is_older_than_the_table_is_told_before_a_broker_starts(
    tmp_path: Path,
) -> None:
    folder, copy = tmp_path / "lake", tmp_path / "metadata-copy.db"
    store = folder / "metadata.db"
    with lake_in(folder) as lake:
        lake.create("orders")
        lake.send("orders", [b"1", b"2"])
        lake.commit()
        with closing(sqlite3.connect(store)) as live, closing(sqlite3.connect(copy)) as target:
            live.backup(target)
        lake.send("orders", [b"3"])
        lake.commit()
        lake.forget_wal()
    shell = Shell(["--data", str(folder)])
    assert "orders is whole" in shell("verify", "orders")
    for left in folder.glob("metadata.db-*"):
        left.unlink()
    shutil.copy(copy, store)
    (tables,) = [each for each in told_by_doctor(shell) if each["what"] == "tables"]
    assert not tables["is_well"]
    assert "it was restored from an older back-up" in tables["about"]
    complained = shell("verify", "orders", code=5)
    assert "the table and the metadata store disagree where the table ends" in complained
    assert "table_says=3, metadata_says=2" in complained
