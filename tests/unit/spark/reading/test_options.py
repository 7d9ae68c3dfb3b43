import pytest

from lakestream_spark.core.errors import Misconfigured
from lakestream_spark.spark.reading.options import AtSnapshot, AtTime, Edge, Exact, parse

ORDERS = {"subscribe": "orders"}


def test_a_stream_starts_at_the_end_and_a_batch_reads_everything():
    stream = parse(ORDERS, streaming=True)
    assert (stream.topics, stream.starting, stream.ending) == (("orders",), Edge.LATEST, None)
    batch = parse(ORDERS, streaming=False)
    assert (batch.starting, batch.ending) == (Edge.EARLIEST, Edge.LATEST)
    assert batch.fail_on_data_loss
    assert not batch.kafka_columns


def test_names_are_spelled_with_any_capitals():
    found = parse({"SUBSCRIBE": "orders", "failondataloss": "False"}, streaming=True)
    assert not found.fail_on_data_loss


def test_offsets_are_given_as_json_with_kafkas_numbers_for_the_edges():
    text = '{"orders": {"0": 23, "1": -2}}'
    found = parse({**ORDERS, "startingOffsets": text}, streaming=False)
    assert found.starting == Exact({"orders": {0: 23, 1: Edge.EARLIEST}})


def test_a_start_may_be_a_time_or_a_snapshot():
    assert parse({**ORDERS, "startingTimestamp": "17"}, streaming=True).starting == AtTime(17)
    assert parse({**ORDERS, "startingSnapshot": "daily"}, streaming=True).starting == AtSnapshot(
        "daily"
    )


def test_many_topics_come_with_kafkas_columns():
    many = {"subscribe": "a, b", "columns": "kafka"}
    assert parse(many, streaming=True).topics == ("a", "b")
    assert parse({"subscribePattern": "a.*", "columns": "kafka"}, streaming=True).pattern == "a.*"


@pytest.mark.parametrize(
    ("given", "streaming", "sentence"),
    [
        ({"subscribe": "a", "startingOfsets": "latest"}, True, "did you mean startingOffsets"),
        ({"subscribe": "a", "zzz": "1"}, True, "lakestream has no option 'zzz'; known: subscribe"),
        ({}, True, "either subscribe or subscribePattern"),
        ({"subscribe": "a", "subscribePattern": "a"}, True, "either subscribe or"),
        ({"subscribe": "a,,b", "columns": "kafka"}, True, "no empty name"),
        ({"subscribePattern": "(", "columns": "kafka"}, True, "is no pattern"),
        ({"subscribe": "a,b"}, True, "set columns=kafka"),
        ({"subscribe": "a", "columns": "both"}, True, "table or kafka, not 'both'"),
        ({"subscribe": "a", "failOnDataLoss": "perhaps"}, True, "true or false, not 'perhaps'"),
        ({"subscribe": "a", "startingOffsets": "soon"}, True, "not 'soon'"),
        ({"subscribe": "a", "startingOffsets": '{"a": 1}'}, True, "earliest, latest or offsets"),
        ({"subscribe": "a", "startingOffsets": '{"a": {"0": -3}}'}, True, "or offsets like"),
        ({"subscribe": "a", "startingTimestamp": "noon"}, True, "is a number, not 'noon'"),
        (
            {"subscribe": "a", "startingTimestamp": "1", "startingSnapshot": "2"},
            True,
            "not both startingTimestamp and startingSnapshot",
        ),
        ({"subscribe": "a", "maxOffsetsPerTrigger": "0"}, True, "at least 1"),
        ({"subscribe": "a", "maxOffsetsPerTrigger": "5"}, False, "is for streams"),
        ({"subscribe": "a", "endingOffsets": "latest"}, True, "is for batches"),
        ({"subscribe": "a", "endingOffsets": "earliest"}, False, "cannot be earliest"),
        ({"subscribe": "a", "startingOffsets": "latest"}, False, "cannot be latest"),
    ],
)
def test_what_is_wrong_is_refused_in_one_sentence(given, streaming, sentence):
    with pytest.raises(Misconfigured) as caught:
        parse(given, streaming=streaming)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)
