from kio.schema.errors import ErrorCode

from lakestream_spark.core.errors import LakestreamError, UnknownTopic
from lakestream_spark.ingress.errors import ERROR_MAP, VERDICT_MAP, error_code
from lakestream_spark.wal.receipt import Verdict


def tree(kind: type[LakestreamError]) -> set[type[LakestreamError]]:
    below = [each for each in kind.__subclasses__() if each.__module__ == kind.__module__]
    return {kind}.union(*map(tree, below))


def test_every_error_of_the_tree_has_a_kafka_code() -> None:
    assert set(ERROR_MAP) == tree(LakestreamError)


def test_every_verdict_has_a_kafka_code() -> None:
    assert set(VERDICT_MAP) == set(Verdict)


def test_error_outside_the_tree_gets_the_code_of_its_nearest_parent() -> None:
    class Special(UnknownTopic):
        pass

    assert error_code(Special("x")) is ErrorCode.unknown_topic_or_partition
