"""The commands that mend a red table, as a person can paste them into Spark SQL."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedies:
    """Commands for one table."""

    catalog: str
    identifier: tuple[str, ...]
    location: str

    @property
    def table(self) -> str:
        return ".".join((self.catalog, *self.identifier))

    @property
    def _quoted(self) -> str:
        return f"'{'.'.join(self.identifier)}'"

    def roll_back(self, snapshot_id: int) -> str:
        return f"CALL {self.catalog}.system.rollback_to_snapshot({self._quoted}, {snapshot_id})"

    def set_current(self, snapshot_id: int) -> str:
        return f"CALL {self.catalog}.system.set_current_snapshot({self._quoted}, {snapshot_id})"

    def empty(self) -> str:
        return f"DELETE FROM {self.table}"

    def apply_deletes(self) -> str:
        """Rewrites the rows without those deleted; the offsets then tell which are gone."""
        return (
            f"CALL {self.catalog}.system.rewrite_data_files(table => {self._quoted}, "
            "options => map('delete-file-threshold', '1', 'remove-dangling-deletes', 'true'))"
        )

    def set_properties(self, properties: Mapping[str, str]) -> str:
        pairs = ", ".join(f"'{key}' = '{value}'" for key, value in properties.items())
        return f"ALTER TABLE {self.table} SET TBLPROPERTIES ({pairs})"

    def drop_partition_fields(self, terms: list[str]) -> str:
        return "; ".join(f"ALTER TABLE {self.table} DROP PARTITION FIELD {term}" for term in terms)

    def rename_column(self, name: str, wanted: str) -> str:
        return f"ALTER TABLE {self.table} RENAME COLUMN {name} TO {wanted}"

    def rename(self, wanted: str) -> str:
        return f"ALTER TABLE {self.table} RENAME TO {self.catalog}.{self.identifier[0]}.<{wanted}>"

    def restore(self, metadata_file: str | None = None) -> str:
        """Back to an earlier state of the metadata; files are never deleted by a plain DROP."""
        newest = metadata_file or f"{self.location}/_iceberg/<the newest good>.metadata.json"
        return (
            f"DROP TABLE IF EXISTS {self.table}; "
            f"CALL {self.catalog}.system.register_table({self._quoted}, '{newest}')"
        )
