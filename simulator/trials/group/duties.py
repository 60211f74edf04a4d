"""A walk of loading and rewriting internal partitions, while masterships change.

    partitions in memory, a queue for each pending operation ─► production's hosting and
    Rewriter ─► is anything shown, or cut off, in another mastership than it was begun in?

The walk decides when, and in which order, loads, confirmations and turns of the loop end.
"""

from collections.abc import Callable, Iterator, Sequence
from random import Random
from types import SimpleNamespace
from typing import Any

from penstock.base.ids import Offset, Position
from penstock.broker.coordinators.hosting import CoordinatorHosting
from penstock.broker.coordinators.rewrite import SLICE_BYTES, Rewriter
from penstock.coordinator.records import JournalRecord
from penstock.replica.replica_set import Role
from penstock.storage.index.transactions import Begun, TransactionEnd

PARTITIONS = 2
RECORD = (b"key", b"v" * (SLICE_BYTES // 2))


TRANSACTIONS_PART = 0.2
"""How often a transaction begins or ends in a partition, in a turn."""


class PaperPartition:
    """What the two see of a hosted partition: a log of offsets, a member, a mastership."""

    def __init__(self, number: int) -> None:
        self.partition = number
        self.is_dropped = False
        self.log_start_offset = self.log_end_offset = self.end_position = 0
        self.role, self.leader_epoch = Role.SLAVE, 0
        self.slice_bytes = 2 * SLICE_BYTES
        self.member = self.log = self.waiting_for_all = self.transactions = self
        self.confirm_position = 0
        self.on_marker: Callable[[TransactionEnd], None] | None = None
        self.open_from: int | None = None
        """Where the oldest open transaction begins."""
        self.parked: list[tuple[int, Any]] = []
        self.confirms: list[Callable[[None], None]] = []
        self.cuts: list[int] = []

    def park(self, end_position: int, waiting: Any) -> None:
        """As in AckQueue."""
        self.parked.append((end_position, waiting))

    def check_writable(self) -> None:
        """It is led here whenever it is asked: that is not what is tried."""

    def first_unstable(self, *_: object) -> Begun | None:
        """As in TransactionLog."""
        return None if self.open_from is None else Begun(Offset(self.open_from), Position(0))

    def delete_records(self, _: object, offset: int) -> None:
        """Note a cut."""
        self.cuts.append(offset)


class DutiesWalk:
    """See the module. Iterate `run` once."""

    def __init__(self, draw: Random) -> None:
        self._random = draw
        self.partitions = [PaperPartition(number) for number in range(PARTITIONS)]
        self._turns: list[Callable[[], None]] = []
        self._loads: list[tuple[int, Callable[[None], None]]] = []
        self._loaded: dict[int, int] = {}
        """Partition -> epoch that it is being loaded, or answered for, in."""
        self._shown: dict[int, int] = {}
        self._confirming: PaperPartition | None = None
        self._wrong: list[str] = []
        self.topic = "__a_kind"
        self.base = SimpleNamespace(partitions=SimpleNamespace(use_count=lambda _: None))
        broker: Any = SimpleNamespace(scheduler=SimpleNamespace(call_soon=self._turns.append))
        self._ownership = CoordinatorHosting(broker, self, self)  # type: ignore[arg-type]
        self._rewriter = Rewriter(broker.scheduler, self._append)
        self._begun: dict[int, tuple[int, int | None]] = {}
        """Partition -> (epoch, first offset) of its rewrite."""
        self._kept_from: dict[int, int] = {}
        """Partition -> where a transaction began that was open when its rewrite did."""

    def run(self, steps: int) -> Iterator[str]:
        """Go; yield what is wrong."""
        ways = (self._mastership, self._load_ends, self._confirm, self._rewrite, self._turn)
        trail: list[str] = []
        for _ in range(steps):
            do = self._random.choice((*ways, self._load_ends, self._confirm, self._turn))
            trail.append(do.__name__[1:])
            do()
            self._wrong += self._stale()
            if self._wrong:
                yield from (f"{text}, after {trail[-10:]}" for text in self._wrong)
                return

    # The coordinator, and the journal that it is loaded from

    def begin_loading(self, partition: int) -> None:
        """As in CoordinatorRuntime."""
        self._loaded[partition] = self.partitions[partition].leader_epoch

    def unload(self, partition: int) -> None:
        """As in CoordinatorRuntime."""
        self._loaded.pop(partition, None)
        self._shown.pop(partition, None)

    def finish_loading(self, partition: int) -> None:
        """As in CoordinatorRuntime; here it is judged."""
        hosted = self.partitions[partition]
        if self._loaded.get(partition) != hosted.leader_epoch:
            self._wrong.append(f"{partition} is shown, and was loaded in {self._loaded}")
        elif self._confirming is not hosted:
            self._wrong.append(f"{partition} is shown before what was loaded is confirmed")
        self._shown[partition] = hosted.leader_epoch

    def load(self, hosted: Any, _: object, on_done: Any, *__: object, is_over: Any) -> None:
        """As in InternalTopicJournal; it ends when the walk says."""
        self._loads.append((hosted.partition, lambda none: None if is_over() else on_done(none)))

    # What happens

    def _mastership(self) -> None:
        """Another mastership: here, or elsewhere. What waits is refused, as a member does."""
        hosted = self._random.choice(self.partitions)
        hosted.leader_epoch += 1
        hosted.role = self._random.choice((Role.MASTER, Role.MASTER, Role.SLAVE))
        self._ownership.reconcile()

    def _load_ends(self) -> None:
        if self._loads:
            _, done = self._loads.pop(self._random.randrange(len(self._loads)))
            done(None)

    def _confirm(self) -> None:
        hosted = self._random.choice(self.partitions)
        self._confirming = hosted
        parked, hosted.parked = hosted.parked, []
        for _, waiting in parked:
            waiting.complete()
        confirms, hosted.confirms = hosted.confirms, []
        for done in confirms:
            done(None)
        self._confirming = None

    def _stale(self) -> Iterator[str]:
        for partition, epoch in self._shown.items():
            hosted = self.partitions[partition]
            if hosted.role is not Role.MASTER or hosted.leader_epoch != epoch:
                yield f"{partition} of mastership {epoch} is shown in {hosted.leader_epoch}"

    # Rewrites

    def _rewrite(self) -> None:
        hosted = self._random.choice(self.partitions)
        count = self._random.randint(1, 5)
        begun = self._rewriter.begin(
            hosted,  # type: ignore[arg-type]
            iter([[RECORD]] * count),
            lambda live_bytes: self._rewritten(hosted, live_bytes),
        )
        if begun and hosted.partition not in self._begun:
            self._begun[hosted.partition] = (hosted.leader_epoch, None)

    def _append(self, hosted: Any, records: Sequence[JournalRecord], done: Any) -> int:
        """Take records of a rewrite: the first of them is where the log may begin."""
        first, opened = hosted.log_end_offset, hosted.open_from
        epoch, known = self._begun.get(hosted.partition, (hosted.leader_epoch, None))
        if epoch != hosted.leader_epoch:
            self._wrong.append(f"a rewrite of mastership {epoch} goes on in {hosted.leader_epoch}")
        self._begun[hosted.partition] = (epoch, first if known is None else known)
        if known is None:
            self._kept_from[hosted.partition] = first if opened is None else opened
        hosted.log_end_offset += len(records)
        hosted.confirms.append(done)
        return int(first)

    def _rewritten(self, hosted: PaperPartition, live_bytes: int | None) -> None:
        epoch, first = self._begun.pop(hosted.partition)
        cuts, hosted.cuts = hosted.cuts, []
        kept_from = self._kept_from.pop(hosted.partition, None)
        if (live_bytes is not None) != (bool(cuts) and kept_from == first):
            self._wrong.append(f"says that it has cut {live_bytes}, and has cut {cuts}")
        if cuts and (epoch != hosted.leader_epoch or cuts != [kept_from]):
            self._wrong.append(f"cut at {cuts}, of {kept_from}, in mastership {epoch}")

    def _turn(self) -> None:
        """One turn of the loop; clients go on writing between two of them."""
        turns, self._turns[:] = list(self._turns), []
        for hosted in self.partitions:
            hosted.log_end_offset += self._random.randint(0, 2)
            if self._random.random() < TRANSACTIONS_PART:
                is_open = hosted.open_from is not None
                hosted.open_from = None if is_open else hosted.log_end_offset
                hosted.log_end_offset += 1
        for turn in turns:
            turn()
