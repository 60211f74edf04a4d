"""The participants in a walk of a master: slaves of plain bytes, brokers, time settings."""

from penstock.base.ids import BrokerEpoch, BrokerId
from penstock.controller.metadata.image import BrokerImage
from penstock.replication.alignment import LogShape
from penstock.replication.config import ReplicationConfig
from penstock.replication.messages import NOT_SAID, HaMessage, Hello
from simulator.checks.masters.mastership import Times
from simulator.trials.stand_ins import PlainLink


class Slave:
    """One slave: its log, and the link that it has now."""

    def __init__(self, broker_id: int) -> None:
        self.broker_id = broker_id
        self.epochs: tuple[tuple[int, int], ...] = ()
        self.start = 0
        self.end = 0
        self.link: PlainLink | None = None
        self.older: list[PlainLink] = []
        """Links that it has left, and whose end the master has not seen."""
        self.process = 1
        self.is_streaming = False
        self.hello: Hello | None = None
        """The last one that has arrived."""
        self.unsaid: list[HaMessage] = []
        """On their way to the master."""
        self.sent = 0
        self.read_ms = NOT_SAID
        """When the newest keep-alive was sent that it has read on its link."""

    def shape(self) -> LogShape:
        """Return what it says of its log."""
        return LogShape(self.epochs, self.start, self.end)  # type: ignore[arg-type]

    @property
    def incarnation(self) -> str:
        """The name of its process."""
        return f"{self.broker_id}-{self.process}"


def broker_of(who: int, incarnation: str, epoch: int) -> BrokerImage:
    """Return a broker as the controllers know it."""
    return BrokerImage(
        broker_id=BrokerId(who),
        host="copy",
        port=1,
        rack=None,
        incarnation=incarnation,
        broker_epoch=BrokerEpoch(epoch),
    )


def times_of(config: ReplicationConfig) -> Times:
    """Return the settings that the rules go by; nothing here is late."""
    return Times(
        lease_ms=config.lease_ms,
        lag_ms=config.replica_lag_time_ms,
        grace_ms=config.disconnect_grace_ms,
        first_grace_ms=config.dial_timeout_ms,
        slack_ms=0,
    )
