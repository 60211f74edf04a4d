"""The coordinator of transactions: requests in, records and duties of markers out.

    request ─► decide (decide.py) over what is confirmed ─► one record ─► confirmed ─► answer
    PrepareCommit, PrepareAbort appended
        ─► markers of partitions in the same log, and Complete* if there are no others (ADR 0100);
           where only a write is waited for, once the answer is on its way (ADR 0183)
    PrepareCommit, PrepareAbort confirmed, or found when loading
        ─► markers to all other partitions of it ─► all written ─► Complete* is written

An id has one change under way at a time: meanwhile others are told CONCURRENT_TRANSACTIONS, and
retry. Until all partitions have heard, the id can not begin another transaction. A change whose
write fails leaves the id as it was; nothing is counted up for it (KAFKA-9666, KAFKA-20090). What is
answered follows from confirmed records, so that a coordinator elsewhere answers the same.

Single owner, as the runtime: all calls come from one thread and nothing blocks.

Source: Kafka `TransactionCoordinator`, `TransactionMarkerChannelManager`; KIP-98, KIP-360, KIP-890.
"""

import logging
from collections.abc import Callable, Iterable

from penstock.base.ids import ProducerId
from penstock.base.ports import Clock
from penstock.coordinator.journal import Journal
from penstock.coordinator.masterships import Masterships
from penstock.coordinator.outbox import Later
from penstock.coordinator.portions import POSITIONS, TO_LOG, TO_WRITE, Steps
from penstock.coordinator.runtime import CoordinatorConfig, CoordinatorRuntime, Foundation
from penstock.coordinator.unwritten import Unwritten
from penstock.coordinator.writes import nobody
from penstock.protocol.error_codes import ErrorCode
from penstock.transactions.config import TransactionConfig
from penstock.transactions.counters import TransactionCounters
from penstock.transactions.decide import (
    Answered,
    Changed,
    Decision,
    Needs,
    PartitionBounds,
    Refused,
    decide_add,
    decide_end,
    decide_init,
    decide_verify,
    producer_of,
)
from penstock.transactions.duties import Duties, cost_beside
from penstock.transactions.ends import Ends
from penstock.transactions.expiry import expire
from penstock.transactions.here import IdsHere
from penstock.transactions.messages import (
    ERRORS,
    NOBODY,
    Described,
    Filter,
    Ids,
    MarkerDuty,
    Markers,
    Producer,
    ProducerReply,
)
from penstock.transactions.shard import TOGETHER, TransactionShard
from penstock.transactions.soon import Soon
from penstock.transactions.state import (
    TopicPartitionName,
    Transaction,
    TransactionState,
)
from penstock.transactions.table import IdTable, Put

log = logging.getLogger(__name__)

Decide = Callable[[Transaction | None, ProducerId | None], Decision]
Reply = Callable[[ProducerReply], None]

TIMEOUT, RETRY, EXPIRY, MARK = "timeout", "retry", "expiry", "mark"
PLACE_BYTES = 300
"""A partition of a transaction: in the transaction, and twice while it ends."""
_SWEEP = (EXPIRY, "")


class TransactionCoordinator:
    """All transactions that one broker coordinates."""

    def __init__(  # noqa: PLR0913  its ports
        self,
        clock: Clock,
        journal: Journal,
        *,
        config: TransactionConfig,
        ids: Ids,
        markers: Markers,
        masterships: Masterships,
        later: Later | None = None,
    ) -> None:
        self.config = config
        self.counters = TransactionCounters()
        self.ends = Ends()
        self._clock = clock
        self._ids = ids
        kind = CoordinatorConfig(
            kind="transactions",
            partition_count=config.partition_count,
            writes_in_flight_max=config.writes_in_flight_max,
            rewrite_after_bytes=config.rewrite_after_bytes,
            rewrite_after_pinned_bytes=config.rewrite_after_pinned_bytes,
            unread_bytes_max=config.unread_bytes_max,
        )
        self._base: Foundation[tuple[str, str]] = Foundation(kind, journal, later)
        self._shard = TransactionShard(begun=self._begun, ended=self._let_go, due=self._on_due)
        self.here = IdsHere(config, self._base.partitions, self._shard, masterships)
        """The ids that are coordinated here."""
        self._duties = Duties(markers, masterships)
        due = {TIMEOUT: self._time_out, RETRY: self._complete_one, MARK: self._mark}
        self._soon = Soon(self._base.portions, due)
        self.runtime = CoordinatorRuntime(self._base, self._shard)
        self._set(_SWEEP, config.expiry_check_interval_ms)

    # Requests

    def init_producer_id(
        self, transactional_id: str, timeout_ms: int, known: Producer | None, reply: Reply
    ) -> None:
        """A producer begins with the id; `known` is what it has, if it has some (KIP-360)."""
        told = self._base.outbox.wrap(reply)
        is_half = known is not None and (known.producer_id < 0) != (known.epoch < 0)
        has = None if known is None or known.producer_id < 0 else known

        def decide(one: Transaction | None, fresh_id: ProducerId | None) -> Decision:
            if not 0 < timeout_ms <= self.config.timeout_max_ms:
                return Refused(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
            if is_half:
                return Refused(ErrorCode.INVALID_REQUEST)
            if one is None and self.here.is_full:
                return Refused(ErrorCode.POLICY_VIOLATION)
            now_ms = self._clock.wall_ms()
            return decide_init(
                one, transactional_id, timeout_ms, has, now_ms=now_ms, fresh_id=fresh_id
            )

        self._change(transactional_id, decide, told)

    def add_partitions(
        self,
        transactional_id: str,
        producer: Producer,
        partitions: Iterable[TopicPartitionName],
        version: int,
        reply: Reply,
    ) -> None:
        """Partitions enter the producer's transaction, all or none of them."""
        added = frozenset(partitions)

        def decide(one: Transaction | None, _: int | None) -> Decision:
            left = self.config.partitions_together_max - self.here.place_count
            bounds = PartitionBounds(self.config.partitions_max, left)
            now_ms = self._clock.wall_ms()
            return decide_add(one, producer, added, version, now_ms=now_ms, bounds=bounds)

        self._change(transactional_id, decide, self._base.outbox.wrap(reply))

    def verify(
        self,
        transactional_id: str,
        producer: Producer,
        partitions: Iterable[TopicPartitionName],
    ) -> dict[TopicPartitionName, ErrorCode]:
        """Return for each partition whether it is in the producer's transaction."""
        states = self.here.asked_for(transactional_id)
        if isinstance(states, ErrorCode):
            return dict.fromkeys(partitions, states)
        if self._duties.is_written_beside(states.partition, transactional_id):
            # What is confirmed has the partitions, of which some have a marker: a batch behind
            # it would begin a transaction that nobody ends.
            return dict.fromkeys(partitions, ErrorCode.CONCURRENT_TRANSACTIONS)
        one = states.values.get(transactional_id)
        is_changing = states.is_in_flight(transactional_id)
        return {each: decide_verify(one, producer, each, is_changing) for each in partitions}

    def end(
        self,
        transactional_id: str,
        producer: Producer,
        version: int,
        reply: Reply,
        *,
        is_commit: bool,
    ) -> None:
        """The producer commits or aborts; answered once that is decided for good."""

        def decide(one: Transaction | None, fresh_id: ProducerId | None) -> Decision:
            now_ms = self._clock.wall_ms()
            return decide_end(
                one, producer, version, is_commit=is_commit, now_ms=now_ms, fresh_id=fresh_id
            )

        self._change(transactional_id, decide, self._base.outbox.wrap(reply))

    def describe(self, transactional_id: str) -> Described:
        """Return what is confirmed of an id."""
        states = self.here.asked_for(transactional_id)
        if isinstance(states, ErrorCode):
            return Described(states)
        one = states.values.get(transactional_id)
        if one is None:
            return Described(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
        return Described(ErrorCode.NONE, one)

    def listed(self, wanted: Filter) -> Iterable[list[Transaction]]:
        """Yield what `wanted` admits of some ids after the other that are coordinated here."""
        return self._shard.listed(wanted, self._clock.wall_ms())

    @property
    def is_loading(self) -> bool:
        """Whether some ids are not known yet."""
        return self._base.partitions.is_loading

    # Markers

    def markers_written(self, duty: MarkerDuty, partitions: Iterable[TopicPartitionName]) -> None:
        """Note that partitions have the marker, or never will need it. May be told twice."""
        with self._base.outbox.holding():
            if self._duties.note(duty, partitions):
                self._soon.put(RETRY, duty.transactional_id)

    # Changes

    def _change(self, transactional_id: str, decide: Decide, reply: Reply) -> None:
        """Decide, with a new producer id if that is needed, write, answer."""
        with self._base.outbox.holding():
            self._decide(transactional_id, decide, reply, None)

    def _decide(
        self, transactional_id: str, decide: Decide, reply: Reply, fresh_id: ProducerId | None
    ) -> None:
        states = self.here.asked_for(transactional_id)
        if isinstance(states, ErrorCode):
            reply(ProducerReply(states))
            return
        if states.is_in_flight(transactional_id):
            reply(ProducerReply(ErrorCode.CONCURRENT_TRANSACTIONS))
            return
        match decide(states.values.get(transactional_id), fresh_id):
            case Needs():
                self._ask_id(transactional_id, decide, reply)
            case Refused(code):
                reply(ProducerReply(code))
            case Answered(producer):
                reply(ProducerReply(ErrorCode.NONE, producer))
            case Changed(after, code):
                self._write(states, after, code, reply)

    def _ask_id(self, transactional_id: str, decide: Decide, reply: Reply) -> None:
        def told(producer_id: ProducerId | None) -> None:
            with self._base.outbox.holding():
                if producer_id is None:
                    reply(ProducerReply(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
                else:
                    self._decide(transactional_id, decide, reply, producer_id)

        self._ids.next_id(told)

    def _write(self, states: IdTable, after: Transaction, code: ErrorCode, reply: Reply) -> None:
        if self._base.writes.is_full:
            reply(ProducerReply(ErrorCode.COORDINATOR_NOT_AVAILABLE))
            return

        def told(reason: Unwritten | None) -> None:
            if reason is not None:
                reply(ProducerReply(ERRORS[reason]))
            else:
                producer = producer_of(after) if code is ErrorCode.NONE else NOBODY
                reply(ProducerReply(code, producer))

        self._append(states, after.transactional_id, after, told)

    def _append(
        self,
        states: IdTable,
        transactional_id: str,
        after: Transaction | None,
        told: Callable[[Unwritten | None], None],
        again: str | None = None,
    ) -> None:
        """Write a change of an id; `again` is the deadline that repeats it if it is refused."""

        def is_here() -> bool:
            return self._shard.by_partition.get(states.partition) is states

        def confirmed(one: Transaction | None) -> None:
            if is_here():
                self._confirmed(states, transactional_id, one)

        def refused() -> None:
            self.ends.tell(transactional_id)
            if again is not None and is_here():
                self._set((again, transactional_id), self.config.retry_ms)

        change = Put(states, transactional_id, after, confirmed=confirmed, refused=refused)
        self._base.writes.append(states.partition, change, told)
        if after is None or not after.is_prepared:
            return
        is_under_way = states.is_in_flight(transactional_id)  # else it is refused, or confirmed
        if is_under_way and not self._duties.come_behind(states.partition):
            self._write_beside(states, after)

    def _write_beside(self, states: IdTable, one: Transaction) -> None:
        """Write what the log of a decision can have behind it, before that is confirmed.

        Whatever of a log survives, it is right: the markers with the decision, or without them.
        """
        if self._duties.write_beside(states.partition, one) and not self._base.writes.is_full:
            after = one.completed(self._clock.wall_ms())
            self._append(states, one.transactional_id, after, nobody, RETRY)

    def _confirmed(self, states: IdTable, transactional_id: str, one: Transaction | None) -> None:
        if one is None:  # no transaction was open: nothing is left to end
            self.ends.tell(transactional_id)
            return
        self.counters.note(one.state)
        if one.is_prepared and self._duties.put_off(states.partition, one):
            self._base.outbox.behind(lambda: self._soon.put(MARK, transactional_id))
        self._begun(states, one)
        if not one.is_prepared:
            self.ends.tell(transactional_id)

    def _begun(self, states: IdTable, one: Transaction) -> None:
        """Do what a confirmed state asks for: it was written, or found when loading."""
        key = (TIMEOUT, one.transactional_id)
        if one.state is not TransactionState.ONGOING:
            self._base.deadlines.cancel(key)
        elif self._base.deadlines.at(key) is None:
            open_for_ms = max(self._clock.wall_ms() - one.start_ms, 0)
            self._set(key, max(one.timeout_ms - open_for_ms, 0))
        if one.is_prepared and not self._duties.begin(states.partition, one):
            self._complete(one.transactional_id)

    def _mark(self, transactional_id: str) -> int:
        """Write the markers that may stand behind a decision, and have the others told."""
        states = self.here.states_of(transactional_id)
        if isinstance(states, ErrorCode):
            return 1
        one = self._duties.taken_up(states.partition, transactional_id)
        if one is None:
            return 1
        self._duties.write_beside(states.partition, one)
        self._begun(states, one)
        return TO_WRITE + cost_beside(one)

    def _complete(self, transactional_id: str) -> None:
        """All partitions have heard: the transaction is over."""
        states = self.here.states_of(transactional_id)
        if isinstance(states, ErrorCode) or states.is_in_flight(transactional_id):
            return
        one = states.values.get(transactional_id)
        if (
            one is None
            or not one.is_prepared
            or self._duties.is_open(states.partition, transactional_id)
        ):
            return
        if self._base.writes.is_full:
            self._set((RETRY, transactional_id), self.config.retry_ms)
            return
        after = one.completed(self._clock.wall_ms())
        self._append(states, transactional_id, after, nobody, RETRY)

    def _complete_one(self, transactional_id: str) -> int:
        self._complete(transactional_id)
        return TO_WRITE

    # Time

    def _on_due(self, key: tuple[str, str]) -> None:
        kind, transactional_id = key
        if kind == EXPIRY:
            self._base.portions.begin(self._expire())
        else:
            self._soon.put(kind, transactional_id)

    def _time_out(self, transactional_id: str) -> int:
        """Abort a transaction that is open for too long, with an epoch that fences its producer.

        Returns what that cost: the record has all partitions.
        """
        states = self.here.states_of(transactional_id)
        if isinstance(states, ErrorCode):
            return 1
        one = states.values.get(transactional_id)
        is_next = self._base.deadlines.at((TIMEOUT, transactional_id)) is not None
        if one is None or one.state is not TransactionState.ONGOING or is_next:
            return 1
        if states.is_in_flight(transactional_id) or self._base.writes.is_full:
            self._set((TIMEOUT, transactional_id), self.config.retry_ms)
            return 1
        log.info("transaction=%s open for %d ms, aborted", transactional_id, one.timeout_ms)
        after = one.fenced().prepared(is_commit=False, now_ms=self._clock.wall_ms())

        def told(reason: Unwritten | None) -> None:
            # LATE is written and not confirmed yet, and told once: it is most likely going to be.
            self.counters.timed_out += reason is None or reason is Unwritten.LATE

        self._append(states, transactional_id, after, told, TIMEOUT)
        return TO_WRITE + TO_LOG + len(one.partitions) // POSITIONS + cost_beside(one)

    def _expire(self) -> Steps:
        oldest_ms = self._clock.wall_ms() - self.config.id_expiration_ms
        yield from expire(
            self._shard,
            oldest_ms,
            lambda states, name: self._append(states, name, None, nobody),
            is_full=lambda: self._base.writes.is_full,
        )
        self._set(_SWEEP, self.config.expiry_check_interval_ms)

    def _set(self, key: tuple[str, str], after_ms: int) -> None:
        self._base.deadlines.set(key, self._clock.monotonic_ms() + after_ms)

    @property
    def pinned_bytes(self) -> int:
        """Approximate memory of ids and partitions, in bytes."""
        return self.here.id_bytes + self.here.place_count * PLACE_BYTES

    @property
    def ending_count(self) -> int:
        """Transactions whose partitions have not all heard how they ended."""
        return len(self._duties)

    def _let_go(self, states: IdTable) -> Steps:
        """End what belongs to a partition that is not coordinated here any more."""
        self._duties.cancel(states.partition)
        for number, transactional_id in enumerate([*states.keys()]):
            self._base.deadlines.cancel((TIMEOUT, transactional_id))
            self._base.deadlines.cancel((RETRY, transactional_id))
            self.ends.tell(transactional_id)
            if number % TOGETHER == 0:
                yield 1
