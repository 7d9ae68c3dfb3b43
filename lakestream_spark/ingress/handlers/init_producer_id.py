"""InitProducerId, v0–v5.

Behaviour: hands out a new producer id with epoch 0.
Version notes: from v3 a producer may ask for a newer epoch of its id; it gets a new id instead,
which clients accept.
Not done: transactional ids are refused.
"""

from datetime import timedelta
from typing import Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from lakestream_spark.core.errors import LakestreamError
from lakestream_spark.core.ids import NO_PRODUCER
from lakestream_spark.ingress.broker import Broker
from lakestream_spark.ingress.errors import error_code
from lakestream_spark.ingress.messages import Request

API_KEY: Final = 22
VERSIONS: Final = range(6)


async def handle(broker: Broker, request: Request) -> ResponsePayload:
    if request.message.transactional_id is not None:
        return _answer(request, ErrorCode.transactional_id_authorization_failed, NO_PRODUCER, -1)
    try:
        producer_id = await broker.log.producers.allocate()
    except LakestreamError as error:
        return _answer(request, error_code(error), NO_PRODUCER, -1)
    return _answer(request, ErrorCode.none, producer_id, 0)


def _answer(request: Request, code: ErrorCode, producer_id: int, epoch: int) -> ResponsePayload:
    answer: ResponsePayload = request.respond(
        "InitProducerIdResponse",
        throttle_time=timedelta(0),
        error_code=code,
        producer_id=producer_id,
        producer_epoch=epoch,
    )
    return answer
