"""The judge: checks the history of all clients, and names every broken guarantee.

A history has lists of sends, polls, group positions, masterships and replicas' logs (`events`).
Every value is unique in its partition and sent once, so each record can be followed from the send
to the offsets at which it was read. Acknowledgements have offsets, so no search is needed: every
check is sorting and look-ups, O(n log n).

    History, Rules -> Facts of each partition (offset -> value, value -> offset, ...)
                   -> one small function per anomaly (contents, order, freshness, groups, ...)
                   -> Report

Outcome of a send: ACKED (acknowledged), FAILED (certainly not in the log), UNKNOWN (a time-out: it
may or may not be in the log, and neither is an anomaly, but a duplicate or a wrong order is).

Source: the anomaly names of the Jepsen Kafka workload (jepsen-io/jepsen, tests/kafka.clj), own
definitions; `report.Anomaly` lists them all with ours.

Transactions are not covered; the controllers' state is checked in
`simulator.history.linearizability`.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from simulator.history import contents, freshness, groups, order, ownership, replicas
from simulator.history.events import (
    NO_MASTER,
    NOTHING_COMMITTED,
    Commit,
    Content,
    Deletion,
    History,
    MastershipSeen,
    Outcome,
    Owned,
    Partition,
    Poll,
    ReplicaEntry,
    ReplicaLog,
    Rules,
    Send,
    Value,
)
from simulator.history.facts import Facts, gather
from simulator.history.report import DISORDERS, LOSSES, Anomaly, Finding, Report

__all__ = [
    "DISORDERS",
    "LOSSES",
    "NOTHING_COMMITTED",
    "NO_MASTER",
    "Anomaly",
    "Commit",
    "Content",
    "Deletion",
    "Finding",
    "History",
    "MastershipSeen",
    "Outcome",
    "Owned",
    "Partition",
    "Poll",
    "ReplicaEntry",
    "ReplicaLog",
    "Report",
    "Rules",
    "Send",
    "Value",
    "check",
    "judge",
]

_Event = TypeVar("_Event", Send, Poll)

_CHECKS: tuple[Callable[[Facts], Iterable[Finding]], ...] = (
    contents.inconsistent_offsets,
    contents.duplicates,
    contents.lost,
    contents.never_written,
    contents.vanished,
    contents.retention,
    contents.torn_batches,
    contents.mismatches,
    contents.zombie_writes,
    order.producer_order,
    order.realtime_order,
    order.consumer_order,
    freshness.stale_reads,
    freshness.high_watermark_regressions,
)


def check(
    sends: Iterable[Send],
    polls: Iterable[Poll],
    *,
    final_reader: str | None = None,
    stale_ns_max: int = 0,
) -> Report:
    """Judge sends and polls alone; see `judge` and `Rules`."""
    rules = Rules(final_reader=final_reader, stale_ns_max=stale_ns_max)
    return judge(History(sends=list(sends), polls=list(polls)), rules)


def judge(history: History, rules: Rules | None = None) -> Report:
    """Judge a finished history; the last polls should have read every partition to its end."""
    rules = rules or Rules()
    facts = _facts(history, rules)
    findings: list[Finding] = []
    lag_ns = 0
    for fact in facts.values():
        for look in _CHECKS:
            findings.extend(look(fact))
        lags = freshness.lags(fact)
        lag_ns = max([lag_ns, *(lag[0] for lag in lags)])
        findings.extend(freshness.realtime_lags(fact, lags))
        deletions = [each for each in history.deletions if each.partition == fact.partition]
        findings.extend(freshness.start_regressions(fact, deletions))
        for group, readers in rules.readers:
            findings.extend(ownership.unread(fact, group, readers))
    findings.extend(order.key_order(history.sends, facts))
    kept_ns = rules.positions_kept_ns
    findings.extend(groups.commit_regressions(history.commits, rules))
    findings.extend(ownership.owned_twice(history.owned, kept_ns))
    findings.extend(ownership.stale_commits(history.commits, history.owned, kept_ns))
    findings.extend(replicas.masterships(history.masterships))
    findings.extend(replicas.divergences(history.replicas))
    return Report(
        sent=len(history.sends),
        acked=sum(send.outcome is Outcome.ACKED for send in history.sends),
        read=sum(len(fact.read) for fact in facts.values()),
        findings=tuple(findings),
        lag_ns=lag_ns,
    )


def _facts(history: History, rules: Rules) -> dict[Partition, Facts]:
    sends = _by_partition(history.sends)
    polls = _by_partition(history.polls)
    return {
        partition: gather(partition, sends.get(partition, []), polls.get(partition, []), rules)
        for partition in dict.fromkeys([*sends, *polls])
    }


def _by_partition(events: Sequence[_Event]) -> dict[Partition, list[_Event]]:
    grouped: dict[Partition, list[_Event]] = defaultdict(list)
    for event in events:
        grouped[event.partition].append(event)
    return grouped
