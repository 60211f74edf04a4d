"""The ids that are coordinated here: where one is, whether it may be answered, how many there are.

    id ─► too long? ─► its partition ─► shown here? ─► read? ─► lease of the mastership ─► its ids

Source: Kafka `TransactionStateManager.getAndMaybeAddTransactionState`.
The lease is ours (ADR 0089).
"""

from penstock.coordinator.masterships import Masterships
from penstock.coordinator.partitioning import partition_of
from penstock.coordinator.partitions import Partitions
from penstock.protocol.error_codes import ErrorCode
from penstock.transactions.config import TransactionConfig
from penstock.transactions.decide import producer_of
from penstock.transactions.messages import Producer
from penstock.transactions.shard import TransactionShard
from penstock.transactions.state import NO_NUMBER, Transaction, TransactionState
from penstock.transactions.table import IdTable


class IdsHere:
    """Looks into the tables of the shown partitions; changes nothing."""

    __slots__ = ("_config", "_masterships", "_partitions", "_shard")

    def __init__(
        self,
        config: TransactionConfig,
        partitions: Partitions,
        shard: TransactionShard,
        masterships: Masterships,
    ) -> None:
        self._config = config
        self._partitions = partitions
        self._shard = shard
        self._masterships = masterships

    def is_id_allowed(self, transactional_id: str) -> bool:
        """Whether an id is short enough.

        One that is not hears TRANSACTIONAL_ID_AUTHORIZATION_FAILED: all clients take that as final,
        while librdkafka asks again after INVALID_REQUEST until its time is over.
        """
        size = len(transactional_id.encode(errors="surrogatepass"))
        return size <= self._config.id_bytes_max

    def partition_of(self, transactional_id: str) -> int:
        """Return the partition of the internal topic that has an id."""
        return partition_of(transactional_id, self._partitions.count)

    def asked_for(self, transactional_id: str) -> IdTable | ErrorCode:
        """Return the ids for an answer from memory, while nobody else can coordinate them.

        A coordinator that was replaced and does not know it would take the commit of a transaction
        for that of the one before, which had the same epoch.
        """
        states = self.states_of(transactional_id)
        if isinstance(states, ErrorCode) or self._masterships.is_certain(states.partition):
            return states
        return ErrorCode.NOT_COORDINATOR

    def states_of(self, transactional_id: str) -> IdTable | ErrorCode:
        """Return the ids of the partition that has this one, or why there are none."""
        if not transactional_id:
            return ErrorCode.INVALID_REQUEST
        if not self.is_id_allowed(transactional_id):
            return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        partition = self.partition_of(transactional_id)
        states = self._shard.by_partition.get(partition)
        if states is None:
            is_owned = self._partitions.state(partition) is not None
            loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            return loading if is_owned else ErrorCode.NOT_COORDINATOR
        if transactional_id in states.unread:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        return states

    def open_of(self, transactional_id: str, producer: Producer) -> Transaction | None:
        """Return the producer's open transaction while no change of it is on its way.

        None where anything else is to be said of it, which `decide_verify` does.
        """
        states = self.asked_for(transactional_id)
        if isinstance(states, ErrorCode) or states.is_in_flight(transactional_id):
            return None
        one = states.values.get(transactional_id)
        if one is None or one.state is not TransactionState.ONGOING:
            return None
        return one if producer == producer_of(one) else None

    def number_of(self, transactional_id: str) -> int:
        """Return the number of the id's confirmed transaction; NO_NUMBER if it is not known."""
        states = self.states_of(transactional_id)
        one = None if isinstance(states, ErrorCode) else states.values.get(transactional_id)
        return NO_NUMBER if one is None else one.number

    @property
    def id_count(self) -> int:
        """Transactional ids that are coordinated here."""
        return sum(len(states.values) for states in self._shard.by_partition.values())

    @property
    def id_bytes(self) -> int:
        """Approximate memory of the ids, in bytes, without partitions."""
        return sum(states.id_bytes for states in self._shard.by_partition.values())

    @property
    def place_count(self) -> int:
        """Partitions of open and ending transactions."""
        return sum(states.place_count for states in self._shard.by_partition.values())

    @property
    def is_full(self) -> bool:
        """Whether there are as many ids as there may be, those under way included."""
        new = sum(states.new_count for states in self._shard.by_partition.values())
        is_enough = self.id_count + new >= self._config.ids_max
        return is_enough or self.id_bytes >= self._config.ids_bytes_max
