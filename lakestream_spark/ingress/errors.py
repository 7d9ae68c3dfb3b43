"""From the error tree to Kafka's error codes: one map, complete over the tree."""

from typing import Final

from kio.schema.errors import ErrorCode

from lakestream_spark.core import errors
from lakestream_spark.wal.receipt import Verdict

ERROR_MAP: Final[dict[type[errors.LakestreamError], ErrorCode]] = {
    errors.LakestreamError: ErrorCode.unknown_server_error,
    errors.Transient: ErrorCode.kafka_storage_error,
    errors.Unavailable: ErrorCode.kafka_storage_error,
    errors.OutcomeUnknown: ErrorCode.request_timed_out,
    errors.Overloaded: ErrorCode.request_timed_out,
    # The client asks for metadata again and goes to a broker that is not fenced.
    errors.Fenced: ErrorCode.not_leader_or_follower,
    errors.Rejected: ErrorCode.invalid_request,
    errors.UnknownTopic: ErrorCode.unknown_topic_or_partition,
    errors.TopicExists: ErrorCode.topic_already_exists,
    errors.InvalidTopic: ErrorCode.invalid_topic_exception,
    errors.InvalidPartitions: ErrorCode.invalid_partitions,
    errors.InvalidConfig: ErrorCode.invalid_config,
    errors.OffsetOutOfRange: ErrorCode.offset_out_of_range,
    errors.InvalidBatch: ErrorCode.invalid_record,
    # The only one of these that clients send again.
    errors.DamagedBatch: ErrorCode.corrupt_message,
    errors.UnsupportedMagic: ErrorCode.invalid_record,
    errors.BatchTooLarge: ErrorCode.message_too_large,
    errors.OutOfOrderSequence: ErrorCode.out_of_order_sequence_number,
    errors.StaleProducerEpoch: ErrorCode.invalid_producer_epoch,
    errors.RedTable: ErrorCode.kafka_storage_error,
    errors.NotFound: ErrorCode.resource_not_found,
    errors.Corrupt: ErrorCode.kafka_storage_error,
    errors.LostFile: ErrorCode.kafka_storage_error,
    errors.UnsupportedVersion: ErrorCode.kafka_storage_error,
    errors.Misconfigured: ErrorCode.invalid_config,
}

VERDICT_MAP: Final[dict[Verdict, ErrorCode]] = {
    Verdict.ACCEPTED: ErrorCode.none,
    # A repeated batch gets the answer of its first sending.
    Verdict.DUPLICATE: ErrorCode.none,
    Verdict.OUT_OF_ORDER: ErrorCode.out_of_order_sequence_number,
    Verdict.STALE_EPOCH: ErrorCode.invalid_producer_epoch,
    Verdict.UNKNOWN_TOPIC: ErrorCode.unknown_topic_or_partition,
}


def error_code(error: errors.LakestreamError) -> ErrorCode:
    """The code of the error's nearest class in the map."""
    return next(ERROR_MAP[kind] for kind in type(error).__mro__ if kind in ERROR_MAP)
