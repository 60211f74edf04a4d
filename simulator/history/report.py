"""The judge's results: names of anomalies, a finding, a report."""

from collections.abc import Collection
from enum import Enum
from typing import NamedTuple

from simulator.history.events import Partition


class Anomaly(Enum):
    """A broken promise; the text is the name used in reports."""

    INCONSISTENT_OFFSETS = "inconsistent-offsets"  # two values were seen at one offset
    DUPLICATE = "duplicate"  # one value stands at two offsets
    LOST_WRITE = "lost-write"  # acknowledged, readers are past it, nobody read it
    UNSEEN = "unseen"  # acknowledged, beyond what anybody read by the end
    ABORTED_READ = "aborted-read"  # a send that definitely failed was read
    PHANTOM = "phantom"  # nobody sent what was read
    VANISHED = "vanished"  # somebody read it, and in the end it is not there
    TORN_BATCH = "torn-batch"  # a part of a batch is there, another is not beside it
    MISMATCH = "mismatch"  # timestamp or content are not what was sent
    START_REGRESSION = "log-start-regression"  # deleted records are said to be there again
    RETENTION = "retention"  # the log says that it begins before what can be read
    ZOMBIE_WRITE = "zombie-write"  # a fenced producer epoch wrote after the newer one
    NONMONOTONIC_SEND = "nonmonotonic-send"  # a producer's later record stands before its earlier
    REALTIME_ORDER = "realtime-order"  # acknowledged before another was sent, but stands after it
    KEY_ORDER = "key-order"  # records of one key in two partitions, or not in order
    NONMONOTONIC_POLL = "nonmonotonic-poll"  # a consumer's next poll went back or repeated
    POLL_SKIP = "poll-skip"  # a consumer's next poll jumped over records that exist
    INT_NONMONOTONIC_POLL = "int-nonmonotonic-poll"  # the same inside one poll
    INT_POLL_SKIP = "int-poll-skip"
    STALE_READ = "stale-read"  # the log was said to end before what was acknowledged long before
    HIGH_WATERMARK_REGRESSION = "high-watermark-regression"  # the log's end went back
    REALTIME_LAG = "realtime-lag"  # a consumer that polls did not get what was there for too long
    COMMIT_REGRESSION = "committed-offset-regression"  # a group's position went back
    OWNED_TWICE = "partition-owned-twice"  # by two members of a group in one generation
    STALE_COMMIT = "commit-of-an-older-generation"  # taken from a member that was replaced
    GROUP_SKIP = "group-skip"  # acknowledged, and no member of a group that reads all read it
    TWO_MASTERS = "two-masters"  # in one leader epoch
    MASTER_NOT_IN_SYNC = "master-not-in-sync"  # the sync-state set lacks the elected master
    EPOCH_DIVERGENCE = "epoch-divergence"  # replicas differ below what is confirmed


LOSSES = (Anomaly.LOST_WRITE, Anomaly.UNSEEN)
DISORDERS = (
    Anomaly.NONMONOTONIC_SEND,
    Anomaly.REALTIME_ORDER,
    Anomaly.KEY_ORDER,
    Anomaly.NONMONOTONIC_POLL,
    Anomaly.POLL_SKIP,
    Anomaly.INT_NONMONOTONIC_POLL,
    Anomaly.INT_POLL_SKIP,
)


class Finding(NamedTuple):
    """One occurrence of an anomaly."""

    anomaly: Anomaly
    partition: Partition
    detail: str


class Report(NamedTuple):
    """What was checked and what was wrong."""

    sent: int
    acked: int
    read: int
    findings: tuple[Finding, ...]
    lag_ns: int = 0
    """The longest that a consumer which polled did not get what was there."""

    def count(self, *anomalies: Anomaly) -> int:
        """Return how often one of `anomalies` was found."""
        return sum(1 for finding in self.findings if finding.anomaly in anomalies)

    @property
    def lost(self) -> int:
        """Acknowledged records that could not be read."""
        return self.count(*LOSSES)

    @property
    def doubled(self) -> int:
        """Values that stand at more than one offset."""
        return self.count(Anomaly.DUPLICATE)

    @property
    def disordered(self) -> int:
        """Breaches of any order: of a producer, of real time, of a key, of a consumer."""
        return self.count(*DISORDERS)

    def is_clean(self, allowed: Collection[Anomaly] = ()) -> bool:
        """Say whether nothing was found besides `allowed` anomalies."""
        return all(finding.anomaly in allowed for finding in self.findings)
