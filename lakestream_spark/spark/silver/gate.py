"""Great Expectations applied to a batch: which rows fail, and the first rule that each fails.

What always holds: a rule that cannot be applied stops the batch, it never lets rows pass; the same
rows get the same verdict whatever batch they come in. Rows that fail are collected on the driver by
partition and offset, so bound a batch by `maxOffsetsPerTrigger`. Spark 4.1 does not heed that with
`availableNow`: begin with the continuous trigger where a long backlog waits.
"""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from pyspark.sql import DataFrame

from lakestream_spark.core.errors import LakestreamError
from lakestream_spark.spark.silver.rules import great_expectations, rules

PLACE: Final = ("__partition", "__offset")
_WITH_PLACES: Final = {
    "result_format": "COMPLETE",
    "unexpected_index_column_names": [*PLACE],
    "return_unexpected_index_query": False,
}
FAILURE: Final = "__partition int, __offset bigint, reason string, expectation string"


class Failure(NamedTuple):
    """A row that is not good enough, and why; the columns are those of `FAILURE`."""

    partition: int
    offset: int
    reason: str
    expectation: str


class Gate:
    """The rules, made ready once for all batches."""

    def __init__(self) -> None:
        self._gx = gx = great_expectations()
        context = gx.get_context(mode="ephemeral")
        context.variables.progress_bars = {"globally": False}
        # Otherwise every batch is cached and never let go.
        source = context.data_sources.add_spark("stream", persist=False)
        asset = source.add_dataframe_asset("orders")
        self._batches = asset.add_batch_definition_whole_dataframe("batch")
        self._rank = {str(each.description): rank for rank, each in enumerate(rules())}

    def failures(self, rows: DataFrame) -> list[Failure]:
        """One for each row that fails: the first rule in the order of the rules."""
        batch = self._batches.get_batch({"dataframe": rows})
        # All rules are counted in one pass; where rows are is asked only of those that some break,
        # because that takes three passes each.
        counted = batch.validate(self._suite(set(self._rank)), result_format="BOOLEAN_ONLY")
        broken = {one.expectation_config.description for one in counted.results if not one.success}
        if not broken:
            return []
        placed = batch.validate(self._suite(broken), result_format=_WITH_PLACES)
        found = [each for one in placed.results for each in _failures(one)]
        # The last one stays: the first of the rules.
        found.sort(key=lambda each: -self._rank[each.reason])
        return list({each[:2]: each for each in found}.values())

    def _suite(self, reasons: set[str]) -> Any:
        """Those rules, made anew: a suite keeps what it is given."""
        chosen = [each for each in rules() if each.description in reasons]
        return self._gx.ExpectationSuite(name="orders", expectations=chosen)


def _failures(result: Any) -> Iterator[Failure]:
    """The rows that one rule refuses."""
    config = result.expectation_config
    name = f"{config.type}({config.kwargs['column']})"
    if result.success:
        return
    if result.exception_info.get("raised_exception", False) or not result.result:
        raise LakestreamError(f"the rule {name} could not be applied", error=result.exception_info)
    for row in result.result["unexpected_index_list"]:
        partition, offset = (row[column] for column in PLACE)
        yield Failure(partition, offset, config.description, name)
