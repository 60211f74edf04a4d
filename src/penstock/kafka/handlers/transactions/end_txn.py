"""EndTxn (key 26), versions 0 to 5: the producer commits or aborts its transaction.

Answered once the decision is durable; the partitions hear of it afterwards. From version 5 on each
end has a new epoch, which is in the answer (KIP-890). Needs permission to write to the id.

Source: Kafka `KafkaApis.handleEndTxnRequest`, `TransactionCoordinator.endTransaction`.
"""

from penstock.broker.access import Operation, Resource
from penstock.kafka.answers.admin import error_fields
from penstock.kafka.context import RequestContext
from penstock.kafka.gate import refusal
from penstock.kafka.request import Reply, Request
from penstock.kafka.transactions.told import FENCED_VERSION_END, told_code
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from penstock.transactions.messages import NOBODY, Producer, ProducerReply
from penstock.transactions.state import BUMPING_VERSION

KEY = ApiKey.END_TXN
VERSIONS = range(6)
BUMPING_API_VERSION = 5
OLD_VERSION = 1


def handle(context: RequestContext, request: Request, reply: Reply) -> None:
    """Let the coordinator decide."""
    body = request.body
    name = body.transactional_id
    refused = refusal(context, Operation.WRITE, Resource.TRANSACTIONAL_ID, name)
    nobody = {"producer_id": NOBODY.producer_id, "producer_epoch": NOBODY.epoch}
    if refused is not None:
        reply({"error_code": error_fields(refused)["error_code"], **nobody})
        return
    is_bumping = request.api_version >= BUMPING_API_VERSION

    def told(result: ProducerReply) -> None:
        code = told_code(result.error, request.api_version, FENCED_VERSION_END)
        producer = result.producer if is_bumping and code is ErrorCode.NONE else NOBODY
        reply(
            {
                "error_code": code,
                "producer_id": producer.producer_id,
                "producer_epoch": producer.epoch,
            }
        )

    context.broker.transactions.end(
        name,
        Producer(body.producer_id, body.producer_epoch),
        BUMPING_VERSION if is_bumping else OLD_VERSION,
        told,
        is_commit=body.committed,
    )
