"""Metrics of controllers and of replication; the rest of the page is metrics.py.

What concerns the whole cluster (elections, sets that lack copies) is counted by every controller
from its own image and is meant to be read from the active one, which says so of itself. What
concerns one broker's copies is told by that broker.
"""

from collections import Counter
from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from penstock.controller.metadata.image import NO_MASTER, ClusterImage, ReplicaSetImage
from penstock.controller.metadata.kinds import ResourceType
from penstock.controller.resource_config.layers import ALL_BROKERS
from penstock.net.peer import PeerSecurity
from penstock.node.control_plane import ControlPlane
from penstock.replica.copy_turns import CopyTurns
from penstock.runtime.calls.ports import CallStats
from penstock.runtime.replica_manager import ReplicaManager

_MS_PER_S = 1_000


def _longest_turns(plane: ControlPlane) -> Metric:
    turns = GaugeMetricFamily(
        "penstock_peer_longest_turn_seconds",
        "The longest time that a frame of a peer, or a slice of one, held the loop at once, in the "
        "last one to two minutes; from 1 ms on. By the clock: time in which other processes had "
        "its processor counts.",
        labels=["frame"],
    )
    for kind, seconds in sorted(plane.frame_turns().items()):
        turns.add_metric([kind], seconds)
    return turns


def _peer_secrets(security: PeerSecurity) -> Iterator[Metric]:
    yield GaugeMetricFamily(
        "penstock_peer_secrets",
        "Secrets that peers may prove themselves with: 1, and more while the secret is replaced.",
        len(security.keys),
    )
    yield GaugeMetricFamily(
        "penstock_peer_links_by_other_secrets",
        "Open links to and from peers that were proven with another secret than this process "
        "dials with. A restart of either end makes them anew.",
        security.links_of_others,
    )


def control_metrics(plane: ControlPlane, image: ClusterImage) -> Iterator[Metric]:
    """Yield the metrics of the metadata log and of the cluster, as this process knows them."""
    yield GaugeMetricFamily("penstock_topics", "Topics.", len(image.topics_by_id))
    yield _dynamic_configs(image)
    if not plane.is_open:
        return
    yield _longest_turns(plane)
    yield from _peer_secrets(plane.security)
    stats = plane.brain.stats
    yield _counter("penstock_metadata_entries", "Entries applied.", plane.log.applied_index)
    yield GaugeMetricFamily(
        "penstock_metadata_fenced",
        "1 after the metadata log's disk failed: restart the process.",
        int(plane.log.is_fenced),
    )
    yield GaugeMetricFamily(
        "penstock_controller_active",
        "1 on the active controller.",
        int(plane.log.leadership.is_leader),
    )
    yield GaugeMetricFamily(
        "penstock_controller_epoch", "Term of the active controller.", plane.log.leadership.term
    )
    elections = CounterMetricFamily(
        "penstock_elections", "Masterships begun by this controller, by cause.", labels=["cause"]
    )
    for cause, count in sorted(stats.masterships.items()):
        elections.add_metric([cause], count)
    yield elections
    yield _counter(
        "penstock_election_seconds",
        "Time from the discovery that a master is needed to its election, summed up.",
        stats.elect_ms_total / _MS_PER_S,
    )
    yield GaugeMetricFamily(
        "penstock_election_seconds_max",
        "The longest time to an election.",
        stats.elect_ms_max / _MS_PER_S,
    )
    yield _counter(
        "penstock_elections_without_winner",
        "Elections that found nobody who may lead.",
        stats.elections_without_winner,
    )
    yield _counter("penstock_broker_evictions", "Brokers found dead.", stats.evictions)
    yield from _set_metrics(image, plane)


def _dynamic_configs(image: ClusterImage) -> Metric:
    found = GaugeMetricFamily(
        "penstock_dynamic_configs",
        "Configurations that are set at run time, beside those of topics: of single brokers, of "
        "all brokers (default), groups and client metrics.",
        labels=["resource"],
    )
    counts = Counter[str]()
    for (kind, name), values in image.configuration.resources.items():
        is_of_all = kind is ResourceType.BROKER and name == ALL_BROKERS
        counts["default" if is_of_all else kind.name.lower()] += len(values)
    for resource in ("broker", "default", "group", "client_metrics"):
        found.add_metric([resource], counts[resource])
    return found


def _set_metrics(image: ClusterImage, plane: ControlPlane) -> Iterator[Metric]:
    sets = list(image.replica_sets.values())
    fenced = sum(broker.is_fenced for broker in image.brokers.values())
    yield GaugeMetricFamily("penstock_brokers", "Registered brokers.", len(image.brokers))
    yield GaugeMetricFamily("penstock_brokers_fenced", "Registered, but found dead.", fenced)
    yield GaugeMetricFamily("penstock_sets", "Replica sets.", len(sets))
    yield GaugeMetricFamily(
        "penstock_sets_without_master",
        "Sets that nobody leads.",
        sum(replica_set.master == NO_MASTER for replica_set in sets),
    )
    yield GaugeMetricFamily(
        "penstock_sets_under_replicated",
        "Sets with members that are not in step.",
        sum(len(replica_set.sync_state_set) < len(replica_set.replicas) for replica_set in sets),
    )
    yield GaugeMetricFamily(
        "penstock_sets_below_minimum",
        "Sets with fewer members in step than min.insync.replicas or their policy asks for.",
        sum(_is_below_minimum(replica_set, image) for replica_set in sets),
    )
    changes = CounterMetricFamily(
        "penstock_sync_state_set_changes", "Changes of sync-state sets.", labels=["change"]
    )
    for change in ("expand", "shrink"):
        changes.add_metric([change], plane.sync_state_watch.changes[change])
    yield changes


def _is_below_minimum(replica_set: ReplicaSetImage, image: ClusterImage) -> bool:
    least = max(replica_set.policy.minimum, image.defaults.min_insync_replicas)
    return len(replica_set.sync_state_set) < min(least, len(replica_set.replicas))


def replica_metrics(manager: ReplicaManager) -> Iterator[Metric]:
    """Yield the metrics of a broker's replica set members."""
    is_master = _by_set("is_master", "1 where this broker takes the set's writes.")
    confirm_lag = _by_set("confirm_lag_bytes", "Log end minus confirm position.")
    in_sync = _by_set("in_sync_members", "Members in step, on the master.")
    slave_lag = GaugeMetricFamily(
        "penstock_slave_lag_bytes",
        "Log end minus what the slave has acknowledged, on the master.",
        labels=["replica_set", "broker"],
    )
    for set_id, member in sorted(manager.members.items()):
        label = [str(set_id)]
        is_master.add_metric(label, int(member.is_master))
        confirm_lag.add_metric(label, member.log.end_position - member.confirm_position)
        if member.is_master:
            in_sync.add_metric(label, member.in_sync_count)
    for report in manager.reports():
        for slave in report.slaves:
            label = [str(report.replica_set_id), str(slave.broker_id)]
            slave_lag.add_metric(label, slave.lag_bytes)
    yield from (is_master, confirm_lag, in_sync, slave_lag)
    stats = manager.follow_stats
    yield _counter(
        "penstock_truncated_bytes",
        "Bytes of logs cut off because another master never had them.",
        stats.truncated_bytes,
    )
    yield _counter(
        "penstock_truncations",
        "Times a log was cut because another master never had its end.",
        stats.truncations,
    )
    yield _counter("penstock_log_installs", "Logs copied anew from a master.", stats.installs)
    yield _counter(
        "penstock_replication_renegotiations",
        "Times a slave and its master had to agree anew.",
        stats.renegotiations,
    )
    yield _counter(
        "penstock_lease_losses",
        "Times a master stopped to confirm because nobody had answered it for the lease.",
        manager.lease_losses,
    )
    yield from _copy_metrics(manager.server.turns)
    yield from damage_metrics(manager)


def _copy_metrics(turns: CopyTurns) -> Iterator[Metric]:
    yield _counter(
        "penstock_replication_copied_bytes",
        "Bytes of logs sent to members that were not in step, and that no write waited for.",
        turns.pace.copied_bytes,
    )
    yield GaugeMetricFamily(
        "penstock_replication_copy_bytes_per_second",
        "Bound of penstock_replication_copied_bytes_total in a second; 0: none.",
        turns.pace.bytes_per_second,
    )
    yield _counter(
        "penstock_replication_copy_rests",
        "Times that a copy had to wait for its turn, since the rate allowed no more.",
        turns.rests,
    )
    yield GaugeMetricFamily(
        "penstock_replication_copies_resting",
        "Copies to members of sets that wait for their turn now.",
        turns.resting_count,
    )


def damage_metrics(manager: ReplicaManager) -> Iterator[Metric]:
    """Yield the metrics of damage in a broker's files."""
    stats, scrub = manager.damage_stats, manager.scrubber.stats
    found = CounterMetricFamily(
        "penstock_log_damage_found",
        "Times a commit log was found damaged: by a start, or by a read, a slave or the scrub.",
        labels=["during"],
    )
    found.add_metric(["start"], stats.found_at_start)
    found.add_metric(["use"], stats.found_in_use)
    yield found
    yield _counter(
        "penstock_log_damage_repaired",
        "Damaged logs that were cut below the damage, to be copied from their master.",
        stats.repaired,
    )
    damaged = sum(driver.mending.damage is not None for driver in manager.drivers.values())
    yield GaugeMetricFamily(
        "penstock_log_damaged", "Commit logs with damage that is not repaired yet.", damaged
    )
    yield _counter(
        "penstock_log_rebuilt_files",
        "Damaged snapshots, indexes and notes that were made anew.",
        stats.rebuilt_files + scrub.rebuilt_files,
    )
    yield _counter("penstock_scrub_bytes", "Bytes of logs read to find damage.", scrub.read_bytes)
    yield _counter("penstock_scrub_passes", "Times the scrub has read all logs.", scrub.passes)
    yield _counter(
        "penstock_scrub_damage_found", "Damaged places that the scrub has met.", scrub.damage_found
    )


def call_metrics(stats: CallStats) -> Iterator[Metric]:
    """Yield the metrics of what brokers ask each other."""
    calls = CounterMetricFamily(
        "penstock_peer_calls",
        "Questions of this broker to brokers, itself included, by what became of them: those "
        "`timed_out`, `lost`, `failed` or `given_up` may have been done, `answered` ones were.",
        labels=["question", "outcome"],
    )
    for (question, outcome), count in sorted(stats.outcomes.items()):
        calls.add_metric([question, outcome], count)
    waiting = GaugeMetricFamily(
        "penstock_peer_calls_waiting",
        "Questions of this broker to brokers without an answer yet, sent or not.",
        labels=["question"],
    )
    for question, count in sorted(stats.in_flight.items()):
        waiting.add_metric([question], count)
    served = CounterMetricFamily(
        "penstock_peer_calls_served",
        "Questions of brokers, itself included, that this broker was asked: `unserved` ones are of "
        "another release.",
        labels=["question", "outcome"],
    )
    for (question, outcome), count in sorted(stats.served.items()):
        served.add_metric([question, outcome], count)
    yield from (calls, waiting, served)


def _by_set(name: str, text: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"penstock_set_{name}", text, labels=["replica_set"])


def _counter(name: str, text: str, value: float) -> CounterMetricFamily:
    return CounterMetricFamily(name, text, value=value)
