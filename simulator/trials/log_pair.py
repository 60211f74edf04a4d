"""A walk of two logs of one set, and of the disks below them: what is in memory, in snapshots, and
made of the frames at a start stays the same.

    a master's log ─► runs ─► a slave's log
    appends of producers, deleted records, dropped partitions, masterships, retention,
        snapshots, also some that fail; cuts of the slave, ends in good order, losses of power
            ─► is each log behind a start what it was, is a cut log what it was when it ended there,
               and is a slave that has everything what its master is?

A cut is compared with what was noted when the log ended there: ends and times of partitions, and
what producers have written. Log starts and sizes are compared between a log and its own next start.
"""

import errno
from collections.abc import Callable, Iterator
from random import Random

from penstock.base.errors import PlatformError
from penstock.base.ids import LeaderEpoch, Offset, Position, TopicId, TopicPartition
from penstock.frames.run import Run
from penstock.record.batch import read_header
from penstock.record.build import Record, build_batch
from penstock.storage.config import LogConfig, Retention
from simulator.kernel.disk import SimDisk
from simulator.trials.logs import differences, wrong_read
from simulator.trials.still_log import NOW_MS, Facts, StillLog

DIRECTORY = "set-1"
CONFIG = LogConfig(
    segment_bytes=65_536,
    first_segment_bytes=65_536,
    reserve_bytes=0,
    checkpoint_interval_bytes=32_768,
    checkpoint_interval_ms=0,
)
RUN_BYTES = 1 << 20
PARTITIONS = 3
PRODUCERS = 2
SIZES = (10, 300, 9_000)
KEPT_BYTES = 60_000


class Side:
    """One of the two logs, and the disk that it is on."""

    def __init__(self, draw: Random) -> None:
        self.disk = SimDisk(draw)
        self.still = StillLog(self.disk, DIRECTORY, CONFIG)

    def start(self) -> None:
        """Open the log anew. Raises PlatformError, OSError."""
        self.still = StillLog(self.disk, DIRECTORY, CONFIG)


class LogPairWalk:
    """See the module. Iterate `run` once."""

    def __init__(self, draw: Random) -> None:
        self._random = draw
        self._master, self._slave = Side(draw), Side(draw)
        self._numbers = 0
        self._keys = [self._new_key() for _ in range(PARTITIONS)]
        self._sequences: dict[tuple[TopicPartition, int], tuple[int, int]] = {}
        """Epoch and next sequence of a producer in a partition."""
        self._noted: dict[int, Facts] = {}
        """By the end of the master's log."""
        self._trail: list[str] = []
        self._epoch = LeaderEpoch(1)
        self._master.still.log.begin_epoch(self._epoch)
        self._slave.still.log.follow()

    def run(self, steps: int) -> Iterator[str]:
        """Go; yield what is wrong, up to the first step that something is wrong with."""
        ways: dict[Callable[[], Iterator[str]], float] = {
            self._append: 12,
            self._delete: 2,
            self._drop: 1,
            self._begin: 1,
            self._snapshot: 3,
            self._fail_snapshot: 1,
            self._retain: 1,
            self._feed: 5,
            self._cut: 2,
            self._stop: 3,
        }
        for _ in range(steps):
            (do,) = self._random.choices(list(ways), list(ways.values()))
            self._trail.append(do.__name__[1:])
            try:
                texts = list(do())
            except (AssertionError, LookupError, PlatformError, OSError) as error:
                texts = [f"{type(error).__name__}: {error}"]
            if texts:
                yield from (f"{text}, after {self._trail[-12:]}" for text in texts[:1])
                return

    def _new_key(self) -> TopicPartition:
        self._numbers += 1
        return TopicPartition(TopicId(self._numbers.to_bytes(16, "big")), 0)

    def _some_side(self) -> Side:
        return self._random.choice((self._master, self._slave))

    def _note(self) -> None:
        self._master.still.run()
        facts = self._master.still.facts()
        self._noted[facts.end] = facts

    # --- the master ----------------------------------------------------------------------------

    def _append(self) -> Iterator[str]:
        draw, log = self._random, self._master.still.log
        for _ in range(draw.choice((1, 1, 4))):
            key, producer = draw.choice(self._keys), draw.randrange(1, PRODUCERS + 1)
            epoch, sequence = self._sequences.get((key, producer), (0, 0))
            if draw.random() < 0.1:
                epoch, sequence = epoch + 1, 0
            at_ms = NOW_MS + draw.randint(-50, 50)
            data = build_batch(
                [Record(b"key", bytes(draw.choice(SIZES)), (), at_ms)],
                producer_id=producer,
                producer_epoch=epoch,
                base_sequence=sequence,
            )
            batch = memoryview(bytearray(data))
            log.append(log.open_partition(key), batch, read_header(batch))
            self._sequences[key, producer] = epoch, sequence + 1
            self._note()
        yield from ()

    def _delete(self) -> Iterator[str]:
        log, key = self._master.still.log, self._random.choice(self._keys)
        if key in log.partitions:
            partition = log.partitions[key]
            log.delete_records(partition, Offset(self._random.randint(0, partition.log_end_offset)))
            self._note()
        yield from ()

    def _drop(self) -> Iterator[str]:
        """A topic is deleted: both hear of it from the controllers; its name is another one's."""
        at = self._random.randrange(len(self._keys))
        gone, self._keys[at] = self._keys[at], self._new_key()
        for side in (self._master, self._slave):
            if gone in side.still.log.partitions:
                side.still.log.drop_partition(gone)
        self._note()
        yield from ()

    def _begin(self) -> Iterator[str]:
        self._epoch = LeaderEpoch(self._epoch + 1)
        self._master.still.log.begin_epoch(self._epoch)
        self._note()
        yield from ()

    # --- either --------------------------------------------------------------------------------

    def _snapshot(self) -> Iterator[str]:
        self._some_side().still.confirm()
        yield from ()

    def _fail_snapshot(self) -> Iterator[str]:
        """A snapshot can not be written, and the next one can."""
        side = self._some_side()
        operation = self._random.choice(("replace", "sync", "write"))
        side.disk.fail(operation, "/snapshot/", errno.EIO)
        side.still.confirm()
        side.disk.heal()
        side.still.confirm()
        yield from ()

    def _retain(self) -> Iterator[str]:
        side = self._some_side()
        side.still.confirm()
        side.still.retain(NOW_MS, Retention(KEPT_BYTES, -1))
        side.still.confirm()
        yield from ()

    def _stop(self) -> Iterator[str]:
        """End the process, in good order or not, with all of it durable; and start again."""
        side, draw = self._some_side(), self._random
        done: list[None] = []
        side.still.log.settle(lambda: done.append(None))
        side.still.run()
        before = side.still.facts()
        if draw.random() < 0.5:
            side.still.close()
        side.disk.power_loss()
        side.start()
        after = side.still.facts()
        if side.still.log.recovery.was_clean:
            for key in after.partitions.keys() - before.partitions.keys():
                yield f"behind a start: {key} is back, which was dropped"
        for key in after.partitions.keys() - set(self._keys):
            side.still.log.drop_partition(key)  # as the controllers say
        before, after = self._known(before), self._known(side.still.facts())
        yield from (f"behind a start: {text}" for text in differences(before, after))
        for key in after.partitions:
            start, end, *_ = after.partitions[key]
            if start < end:
                yield from wrong_read(side.still, key, draw.randrange(start, end))
        if side is self._slave:
            side.still.log.follow()
        else:
            side.still.log.begin_epoch(self._epoch)

    def _known(self, facts: Facts) -> Facts:
        """Leave out partitions that were dropped: a log has some again until it hears of that."""
        known = self._keys
        partitions = {key: partition for key, partition in facts.partitions.items() if key in known}
        producers = {key: producer for key, producer in facts.producers.items() if key[0] in known}
        return facts._replace(partitions=partitions, producers=producers)

    # --- the slave -----------------------------------------------------------------------------

    def _feed(self) -> Iterator[str]:
        """The slave gets everything, and is what its master is."""
        master, slave = self._master.still, self._slave.still
        master.run()
        for _ in range(200):
            at = slave.log.end_position
            if at >= master.log.end_position:
                break
            if at < master.log.start_position:
                return  # retention has taken what comes next: a copy would follow
            slave.log.append_run(self._read(at))
            slave.run()
        yield from self._otherwise("the slave", slave.facts(), master.facts())

    def _read(self, at: int) -> Run:
        """Return what the master's log has from there on."""
        master = self._master.still
        found = master.log.read_run(Position(at), RUN_BYTES, master.log.end_position)
        if isinstance(found, Run):
            return found
        results: list[Run | None] = []
        found.load(lambda run, error: results.append(run if error is None else None))
        master.run()
        (run,) = results
        assert run is not None, f"nothing can be read at {at}"
        return run

    def _cut(self) -> Iterator[str]:
        log = self._slave.still.log
        ends = [one for one in self._noted if log.start_position < one <= log.end_position]
        if not ends or log.is_busy:
            return
        at = self._random.choice(ends[-8:])
        done: list[object] = []
        log.truncate(Position(at), done.append)
        self._slave.still.run()
        if done != [None]:
            yield f"can not be cut: {done}"
            return
        facts = self._slave.still.facts()
        if facts.end != at:
            yield f"is cut to {at}, and ends at {facts.end}"
        yield from self._otherwise("is cut and", facts, self._noted[at])

    def _otherwise(self, what: str, found: Facts, wanted: Facts) -> Iterator[str]:
        """Name in what a log differs from one with the same bytes, whatever each has kept."""
        one, other = self._known(found), self._known(wanted)
        for key in {*one.partitions, *other.partitions}:
            own, right = one.partitions.get(key), other.partitions.get(key)
            if own is None or right is None or own[1:4] != right[1:4]:
                yield f"{what} has {key} as {own}, not {right}"
        for name, (epoch, window) in one.producers.items():
            right_epoch, spans = other.producers.get(name, (epoch, ()))
            if (epoch, window) != (right_epoch, spans[len(spans) - len(window) :]):
                yield f"{what} has producer {name} as {(epoch, window)}, not {(right_epoch, spans)}"
