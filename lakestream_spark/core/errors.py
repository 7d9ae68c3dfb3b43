"""The whole error tree. A class says what the caller does; the message says what is wrong.

    LakestreamError
    ├── Transient            try again: the same call may succeed later
    │   ├── Unavailable      a store, database or catalog does not answer
    │   ├── OutcomeUnknown   it may have happened: ask with the same identity before anything else
    │   └── Overloaded       bounded memory is full and stayed full for the time allowed
    ├── Fenced               stop: somebody else holds the epoch or the lease
    ├── Rejected             fix the request
    │   ├── UnknownTopic     no topic of that name or id, or no such partition of it
    │   ├── TopicExists      the name is taken
    │   ├── InvalidTopic     the name or the partition count is not legal
    │   │   └── InvalidPartitions  so many partitions, or no more than before
    │   ├── InvalidConfig    a topic setting that does not exist, or a value it cannot have
    │   ├── OffsetOutOfRange below the log start or beyond the high watermark
    │   ├── InvalidBatch     the bytes are not a legal record batch
    │   │   └── DamagedBatch its CRC does not match: sending it again may help
    │   ├── UnsupportedMagic a message format older than v2
    │   ├── BatchTooLarge    above max.message.bytes
    │   ├── OutOfOrderSequence  the producer's sequence has a gap
    │   ├── StaleProducerEpoch  a newer epoch of this producer id was seen
    │   ├── RedTable         somebody changed the table so that nothing may be added to it
    │   └── NotFound         no such object
    ├── Corrupt              page someone: stored bytes are not what was written
    │   ├── LostFile         a file that a snapshot of a table has is not in the store
    │   └── UnsupportedVersion  written by a newer version of this software
    └── Misconfigured        fix the settings; the process should not start

Raise with facts (`expected=`, `actual=`, `key=`): they are kept on the error and shown in its text.
"""

from typing import Self


class LakestreamError(Exception):
    """Base of every error of this project: one sentence plus facts."""

    def __init__(self, message: str, **facts: object) -> None:
        super().__init__(message)
        self.message = message
        self.facts = facts

    def __str__(self) -> str:
        if not self.facts:
            return self.message
        return f"{self.message} ({', '.join(f'{k}={v}' for k, v in self.facts.items())})"

    def again(self) -> Self:
        """The same error as a new object: raised in many tasks, one would gather their traces."""
        return type(self)(self.message, **self.facts)


class Transient(LakestreamError):
    """Try again: the same call may succeed later."""


class Unavailable(Transient):
    """A store, database or catalog does not answer."""


class OutcomeUnknown(Transient):
    """The call may have taken effect; repeat it with the same identity to learn the answer."""


class Overloaded(Transient):
    """Bounded memory is full and stayed full for the time allowed."""


class Fenced(LakestreamError):
    """Stop: somebody else holds the epoch or the lease."""


class Rejected(LakestreamError):
    """Fix the request."""


class UnknownTopic(Rejected):
    """No topic of that name or id, or no such partition of it."""


class TopicExists(Rejected):
    """The name is taken by a live topic."""


class InvalidTopic(Rejected):
    """The name or the partition count is not legal."""


class InvalidPartitions(InvalidTopic):
    """A topic cannot have so many partitions, or has them already."""


class InvalidConfig(Rejected):
    """A topic setting that does not exist, or a value it cannot have."""


class OffsetOutOfRange(Rejected):
    """The offset is below the log start or beyond the high watermark."""


class InvalidBatch(Rejected):
    """The bytes are not a legal record batch."""


class DamagedBatch(InvalidBatch):
    """The CRC does not match the bytes: they changed on their way, so sending again may help."""


class UnsupportedMagic(Rejected):
    """A message format older than v2."""


class BatchTooLarge(Rejected):
    """The batch is above `max.message.bytes`."""


class OutOfOrderSequence(Rejected):
    """The producer's sequence number is not the next one."""


class StaleProducerEpoch(Rejected):
    """A newer epoch of this producer id was seen."""


class RedTable(Rejected):
    """Somebody changed the table so that nothing may be added to it until a person mends it.

    Facts: `snapshot_id`, the snapshot to blame or None, and `remedy`, the command that mends it.
    """


class NotFound(Rejected):
    """No such object."""


class Corrupt(LakestreamError):
    """Stored bytes are not what was written."""


class LostFile(Corrupt):
    """A file that a snapshot of a table has is not in the store."""


class UnsupportedVersion(Corrupt):
    """Written by a newer version of this software."""


class Misconfigured(LakestreamError):
    """The settings do not allow this process to start."""


def first_of(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first error of a group, however deep it lies."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
