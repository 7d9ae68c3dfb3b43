"""Where a lake of a test is: a folder with everything in it, or S3 with PostgreSQL.

Programs that tests start again and again need it: it imports little.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lakestream_spark.settings import Entry, Settings, load

if TYPE_CHECKING:
    from tests.support.s3 import S3Server


def lake_settings(
    folder: Path, *, flush_ms: int = 5, broker_id: int = 1, more: Mapping[str, str] | None = None
) -> Settings:
    """Everything embedded under the folder, on a free port; `more` are further settings."""
    flags = {
        "data": str(folder),
        "broker.port": "0",
        "broker.id": str(broker_id),
        "wal.cost.flush_interval_ms": str(flush_ms),
        **(more or {}),
    }
    entries = [Entry(key=key, value=value, origin="test") for key, value in flags.items()]
    return load(environ={}, flags=entries).settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The data, and the file of settings that says how to reach it."""

    data: str
    conf: Path | None = None

    @property
    def settings(self) -> Settings:
        if self.conf is None:
            return lake_settings(Path(self.data))
        flags = {"data": self.data, "broker.port": "0", "wal.cost.flush_interval_ms": "5"}
        entries = [Entry(key=key, value=value, origin="test") for key, value in flags.items()]
        return load(environ={}, flags=entries, conf=self.conf).settings

    @property
    def flags(self) -> list[str]:
        """How a command is told."""
        return ["--data", self.data, *(["--conf", str(self.conf)] if self.conf else [])]


def on_s3(folder: Path, s3: "S3Server", postgres: str) -> Place:
    """Metadata and catalog in one database; how to reach the bucket, for us and for pyiceberg."""
    options = s3.options()
    assert options.secret_access_key is not None
    secret = options.secret_access_key.get_secret_value()
    path = folder / "lakestream.toml"
    path.write_text(
        f"""
[metadata]
url = "{postgres}"

[store]
endpoint = "{options.endpoint}"
region = "{options.region}"
allow_http = true
access_key_id = "{options.access_key_id}"
secret_access_key = "{secret}"

[catalog.properties]
"s3.endpoint" = "{options.endpoint}"
"s3.region" = "{options.region}"
"s3.access-key-id" = "{options.access_key_id}"
"s3.secret-access-key" = "{secret}"
"""
    )
    return Place(data=s3.new_url(), conf=path)
