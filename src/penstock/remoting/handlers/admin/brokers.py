"""What a broker tells of itself to those who operate a cluster.

    GET_BROKER_RUNTIME_INFO  {"table": {"brokerVersionDesc": …, "putTps": …}}, all values texts
    GET_BROKER_CONFIG        a line `name=value` for each of its settings, without secrets
    GET_NAMESRV_CONFIG       the same: the node is name server and broker in one

Of RocketMQ's hundred measures those are told that this broker has, under RocketMQ's names; the
metrics page has all others. Settings are Penstock's, under their names for Kafka's tools.

Source: RocketMQ 5.3.3 `AdminBrokerProcessor.prepareRuntimeInfo`, `getBrokerConfig`, `MixAll`,
`DefaultRequestProcessor.getConfig`.
"""

from collections.abc import Mapping
from typing import Final

from penstock.broker.access import Operation, Resource
from penstock.broker.turns import Pace
from penstock.remoting.gate import check
from penstock.remoting.handlers.admin.long_answers import answer_long
from penstock.remoting.request import RemotingContext, Reply
from penstock.remoting.routes import encode_json
from penstock.remoting.wire.codes import VERSION, RequestCode
from penstock.remoting.wire.command import Command

CODES: Final = (
    RequestCode.GET_BROKER_RUNTIME_INFO,
    RequestCode.GET_BROKER_CONFIG,
    RequestCode.GET_NAMESRV_CONFIG,
)
_VERSION_TEXT: Final = "V5_3_3"
"""Of the protocol, as clients name `VERSION`."""
_LINE_ENDS: Final = str.maketrans({"\\": "\\\\", "\n": "\\n", "\r": "\\r"})


def handle(context: RemotingContext, command: Command, reply: Reply) -> None:
    """Answer from memory. Raises what is told to the client."""
    if command.code == RequestCode.GET_BROKER_RUNTIME_INFO:
        check(context, Operation.DESCRIBE, Resource.CLUSTER)
        reply(body=encode_json({"table": _measures(context)}))
        return
    check(context, Operation.DESCRIBE_CONFIGS, Resource.CLUSTER)

    async def settings(pace: Pace) -> bytes:
        lines = []
        for entry in context.front.configs.entries():
            await pace.step()
            if entry.value is not None and not entry.is_sensitive:
                lines.append(f"{entry.name}={entry.value.translate(_LINE_ENDS)}\n")
        return "".join(lines).encode()

    answer_long(context, "settings of a broker", reply, settings)


def _measures(context: RemotingContext) -> Mapping[str, str]:
    front, broker = context.front, context.broker
    now_ms = broker.clock.monotonic_ms()
    put, transferred = front.rates.of(now_ms, front.counted())
    masterships = sum(member.is_master for member in broker.members.values())
    told: dict[str, object] = {
        "bootTimestamp": broker.clock.wall_ms() - (now_ms - front.rates.begun_ms),
        "brokerActive": "true",
        "brokerVersion": VERSION,
        "brokerVersionDesc": _VERSION_TEXT,
        "getTransferredTps": transferred,
        "putMessageSizeTotal": broker.stats.bytes_produced,
        "putMessageTimesTotal": broker.stats.records_produced,
        "putTps": put,
        "replicaSets": len(broker.members),
        "replicaSetsLed": masterships,
        "runtime": _duration(now_ms - front.rates.begun_ms),
    }
    return {name: str(value) for name, value in told.items()}


def _duration(ms: int) -> str:
    minutes, seconds = divmod(ms // 1_000, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return f"[ {days} days, {hours} hours, {minutes} minutes, {seconds} seconds ]"
