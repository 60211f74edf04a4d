"""Which brokers were fenced a moment ago: clients are told of them for a while still.

    live ─► fenced ─► told for so long ─► not told any more
               └────► live again, or gone: what was noted is forgotten

librdkafka ends the thread of a broker that an answer to Metadata lacks, and a request that waits
for the connection of that one as a coordinator may wait for ever (its issues 5511 and 5456). Most
brokers that end are back within seconds. Kafka tells a killed one until its session ends, 9 s.

Nobody is sent there: leaders, coordinators and the controller are live brokers (live_broker.py).

Source: ours; Kafka `broker.session.timeout.ms`.
"""

from penstock.base.ids import BrokerId
from penstock.base.ports import Clock
from penstock.controller.metadata.image import ClusterDelta, ClusterImage


class LatelyFenced:
    """Follows the image of one broker; as many entries as the cluster has brokers."""

    __slots__ = ("_clock", "_live", "_told_ms", "_until_ms")

    def __init__(self, clock: Clock, told_ms: int) -> None:
        """`told_ms`: for how long; 0 for not at all."""
        self._clock = clock
        self._told_ms = told_ms
        self._live: set[BrokerId] = set()
        self._until_ms: dict[BrokerId, int] = {}
        """Of those that were live before; monotonic time, exclusive."""

    def begin(self, image: ClusterImage) -> None:
        """Follow an image from now on: it does not say since when its brokers are fenced."""
        self._live = {broker.broker_id for broker in image.brokers.values() if not broker.is_fenced}

    def note(self, delta: ClusterDelta) -> None:
        """Take a change of the image."""
        for broker in delta.removed_brokers:
            self._live.discard(broker.broker_id)
            self._until_ms.pop(broker.broker_id, None)
        for broker in delta.changed_brokers:
            broker_id = broker.broker_id
            if not broker.is_fenced:
                self._live.add(broker_id)
                self._until_ms.pop(broker_id, None)
            elif broker_id in self._live:
                self._live.discard(broker_id)
                self._until_ms[broker_id] = self._clock.monotonic_ms() + self._told_ms

    def has(self, broker_id: BrokerId) -> bool:
        """Return whether a fenced broker is still told of."""
        until_ms = self._until_ms.get(broker_id)
        return until_ms is not None and self._clock.monotonic_ms() < until_ms
