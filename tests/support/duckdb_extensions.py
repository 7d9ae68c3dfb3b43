"""DuckDB's extensions, as their wheels carry them."""

from importlib import resources
from pathlib import Path

from duckdb import DuckDBPyConnection


def load(connection: DuckDBPyConnection, *names: str) -> None:
    for name in names:
        wheel = resources.files(f"duckdb_extension_{name}")
        (file,) = Path(str(wheel)).rglob("*.duckdb_extension")
        connection.load_extension(str(file))
