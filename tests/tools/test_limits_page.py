"""docs/operations/limits.md says of each bound that is no setting what the code has."""

from pathlib import Path

import pytest

from penstock.access import bearer, tokens
from penstock.broker import look_ups, topics_on_demand
from penstock.broker.append import batch_rules
from penstock.broker.audit import client_metrics
from penstock.broker.coordinators import journal
from penstock.broker.fetch import long_fetch, sent_away, short_fetches
from penstock.broker.fetch import partition_shares as fetch_partitions
from penstock.cli import up
from penstock.cli.launch import disk_room, node_files
from penstock.cli.machine import plan, rolling, supervised_node
from penstock.controller.active import transfers
from penstock.controller.commands import (
    alter_resources,
    codec,
    membership,
    replica_sets,
    topic_names,
)
from penstock.controller.metadata import record_codec
from penstock.controller.resource_config import listener_keys
from penstock.coordinator.calls import asking
from penstock.coordinator.calls import tier as tier_calls
from penstock.coordinator.calls import transactions as transaction_calls
from penstock.frames import run_check
from penstock.groups.classic import rebalance
from penstock.groups.group import GROUP_OVERHEAD_BYTES
from penstock.groups.streams import checks as streams_checks
from penstock.groups.streams import configured, endpoints
from penstock.kafka import long_requests
from penstock.kafka.answers import admin
from penstock.kafka.fetch import session, session_cache
from penstock.kafka.handlers.groups import consumer_group_heartbeat, join_group
from penstock.kafka.handlers.records import fetch
from penstock.kafka.shares import fetching
from penstock.kafka.shares import sessions as share_sessions
from penstock.kafka.transactions import marking
from penstock.net import (
    peer_auth,
    peer_errors,
    peer_link,
    peer_listener,
    tls_gate,
    turn_share,
)
from penstock.net.admission import admission
from penstock.net.tls import handshakes
from penstock.node import peers
from penstock.node.access import provider_keys
from penstock.protocol import decode, header, produce
from penstock.raft.config import RaftConfig
from penstock.replica import followed_set, purgatory
from penstock.replication import wire
from penstock.runtime import controller_driver
from penstock.runtime.calls.ports import USUAL_LIMITS
from penstock.runtime.ha import client
from penstock.runtime.io import http_server
from penstock.runtime.raft import applying
from penstock.runtime.session import messages, service
from penstock.runtime.tier import told
from penstock.shares import answers as share_answers
from penstock.shares import share
from penstock.shares.config import SharePolicy
from penstock.storage.index import producers
from penstock.storage.replicate import base_export
from penstock.telemetry import instances, points
from penstock.transactions import coordinator as transactions
from penstock.transactions import ends
from penstock.transactions import table as id_table

PAGE = Path(__file__).resolve().parents[2] / "docs" / "operations" / "limits.md"
ROWS = {
    cells[1].strip(): cells[2]
    for line in PAGE.read_text().splitlines()
    if line.startswith("| ") and len(cells := line.split("|")) == 5
}
SECOND, KIB, MIB = 1_000, 1 << 10, 1 << 20
PATIENCE = supervised_node.Patience()


def shown(number: int) -> str:
    return f"{number:,}"


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("a message with a token", f"{bearer.BEARER_BYTES_MAX // KIB} KiB"),
        ("keys of an identity provider", f"{tokens.KEYS_MAX} of"),
        ("keys of an identity provider", f"{provider_keys.KEYS_BYTES_MAX // MIB} MiB"),
        ("keys of an identity provider", f"{provider_keys.FETCH_SECONDS_MAX:g} s"),
        ("places kept for the protected listener", shown(admission.PROTECTED_PLACES)),
        ("keys of listeners that one broker", shown(listener_keys.LISTENER_KEYS_MAX)),
        ("TLS handshakes of clients", f"{handshakes.BEGUN_IN_TURN} begun in a turn"),
        ("TLS handshakes of clients", f"{handshakes.HALF_OPEN_MAX} half open"),
        ("connections to the metrics port", shown(http_server.CONNECTIONS_MAX)),
        ("of them with other pages than", shown(http_server.ASKED_MAX)),
        ("of them with other pages than", f"{http_server.ANSWER_TIMEOUT_S:.0f} s"),
        ("connections to the metrics port", f"{http_server.REQUEST_BYTES_MAX // KIB} KiB"),
        ("metrics that clients push", f"{shown(instances.INSTANCES_MAX)} client instances"),
        ("metrics that clients push", f"{shown(points.POINTS_MAX)} points"),
        ("metrics that clients push", f"{client_metrics.ROWS_BYTES_MAX // MIB} MiB of rows"),
        ("metrics that clients push", f"{shown(client_metrics.WAITING_MAX)} rows and "),
        ("metrics that clients push", f"{client_metrics.WAITING_BYTES_MAX // MIB} MiB that wait"),
        ("elements of an array in a request", shown(decode.ELEMENTS_MAX)),
        ("long requests", f"above {long_requests.LONG_FRAME_BYTES // KIB} KiB"),
        ("long requests", f"fetches above {fetch.LONG_FRAME_BYTES // KIB} KiB"),
        ("long requests", f"more than {long_fetch.PARTITIONS_HERE} partitions"),
        ("topics and batches of one produce request", shown(produce.BATCHES_MAX)),
        ("partitions that long fetches are parked on", shown(fetch_partitions.PARKED_MAX)),
        ("protocols that a member offers", shown(join_group.PROTOCOLS_MAX)),
        ("tagged fields in one place", shown(header.TAGS_MAX)),
        ("a topic's name", shown(topic_names.TOPIC_NAME_CHARACTERS_MAX)),
        ("members of a set; copies of a partition", shown(replica_sets.REPLICAS_MAX)),
        ("peers that are shaking hands", shown(peer_listener.STRANGERS_MAX)),
        ("peers that are shaking hands", f"{peer_auth.HANDSHAKE_BYTES_MAX} bytes"),
        ("links of peers at one port", shown(peer_listener.LINKS_MAX)),
        ("links of one peer at one port", shown(peer_listener.LINKS_PER_PEER_MAX)),
        ("a frame between peers", f"{peers.CONTROLLER_FRAME_BYTES_MAX // MIB} MiB on the contr"),
        ("a frame between peers", f"{client.FRAME_BYTES_MAX // MIB} MiB from a master"),
        ("a frame between peers", f"{wire.SLAVE_FRAME_BYTES_MAX / 1e6:.1f} MB from a slave"),
        ("sets that one message of a session names", shown(messages.SETS_MAX)),
        ("answers that the other end of a session", f"{peer_link.HIGH_BYTES // MIB} MiB and one"),
        ("TLS handshakes at a port for peers", f"{tls_gate.HANDSHAKES_MAX} at a time"),
        ("lines in the log about links", f"{peer_errors.REASONS_MAX} of an address"),
        ("lines in the log about links", f"for {peer_errors.ADDRESSES_MAX} addresses"),
        ("markers that one question asks", f"{marking.ENTRIES_MAX} transactions"),
        ("markers that one question asks", f"{shown(marking.PARTITIONS_MAX)} partitions"),
        ("markers that one question asks", f"{marking.PAUSE_MS} ms"),
        ("markers that one question asks", f"up to {marking.PAUSE_MS_MAX // SECOND} s"),
        ("questions of a broker to another", f"{USUAL_LIMITS.in_flight} sent"),
        ("questions of a broker to another", f"{shown(USUAL_LIMITS.queued)} waiting"),
        ("questions of a broker to another", f"{asking.FRAME_BYTES_MAX // KIB} KiB"),
        (
            "questions of a broker to another",
            f"{shown(transaction_calls.PARTITIONS_MAX)} partitions",
        ),
        ("questions of one broker that another", f"{USUAL_LIMITS.served}, for"),
        ("questions of one broker that another", f"{USUAL_LIMITS.served_ms // SECOND} s each"),
        ("bytes that a peer does not take", f"{peer_link._UNSENT_BYTES_MAX // MIB} MiB"),
        ("bytes a slave keeps", f"{followed_set.PENDING_FACTOR} times"),
        ("topics that clients have made", shown(topics_on_demand.UNDER_WAY_MAX)),
        ("topics that clients have made", f"{topics_on_demand.WAIT_MS // SECOND} s at most"),
        ("copies of a log given away at once", shown(base_export.EXPORTS_MAX)),
        ("copies of a log given away at once", f"{base_export.SILENCE_MS // SECOND} s"),
        ("changes of metadata that wait", shown(controller_driver.COMMANDS_MAX)),
        ("changes of metadata that wait", shown(service.REQUESTS_MAX)),
        ("one change of metadata", f"{record_codec.ENTRY_BYTES_MAX // MIB} MiB"),
        ("one change of metadata", f"{controller_driver.COMMAND_TIMEOUT_MS // SECOND} s"),
        ("planned transfers at a time", shown(transfers.TRANSFERS_MAX)),
        ("ids for idempotent producers", shown(membership.PRODUCER_ID_BLOCK_COUNT)),
        ("brokers, groups and client metrics", shown(alter_resources.RESOURCES_MAX)),
        ("brokers, groups and client metrics", shown(alter_resources.NAME_CHARACTERS_MAX)),
        ("searches by time", f"{look_ups.REST_MS_MAX} ms at most"),
        ("look-ups by time in what", f"{look_ups.OF_TIER_AT_ONCE}, in the same turns"),
        (
            "runs in the object store",
            f"{tier_calls.RUNS_MAX}, and {tier_calls.RUNS_BYTES_MAX >> 10} K",
        ),
        (
            "runs in the object store",
            f"{told.WINDOWS_MAX} answers for each of {told.PARTITIONS_MAX} ",
        ),
        ("consumers of which a master", f"{sent_away.CONSUMERS_MAX:,}, for"),
        ("consumers of which a master", f"for {sent_away.KEPT_MS // 1000} s each"),
        ("partitions that long fetches examine", shown(fetch_partitions.LOOKING_MAX)),
        ("handlers of requests in a turn", f"{turn_share.TURN_SECONDS * SECOND:g} ms"),
        ("frames of peers that are handled", f"{turn_share.PEERS_SECONDS * SECOND:g} ms"),
        ("partitions placed by hand", f"{shown(admin.ASSIGNMENTS_MAX)} of a topic"),
        ("partitions placed by hand", f"topic; {shown(admin.SETTINGS_MAX)}"),
        ("produce requests that one sync", f"{purgatory.SLICE} answered"),
        ("partitions of other fetches that wait", shown(short_fetches.OF_ONE_MAX)),
        ("the same of all together", shown(short_fetches.ALL_MAX)),
        ("a batch, decompressed", f"{shown(batch_rules.UNPACKED_RATIO_MAX)} times its size"),
        ("producer ids remembered", f"{shown(producers.STATE_BYTES_MAX)} bytes each"),
        ("batches per producer", f"{producers.WINDOW_BATCHES}"),
        ("fetch sessions", f"{session.PARTITION_BYTES} bytes and a name"),
        ("fetch sessions", f"{session_cache.GONE_MS // SECOND} s where the connection"),
        ("share sessions", f"{shown(share_sessions.OF_SESSION_MAX)} partitions of one"),
        ("share sessions", f"{shown(share_sessions.PARTITIONS_MAX)} of all"),
        ("share sessions", f"{share_sessions.PARTITION_BYTES} bytes each"),
        ("shares (groups by partitions)", f"{share.SHARE_BYTES / SECOND:.0f} KB each"),
        ("records of a share that are handed out", shown(SharePolicy().window_max)),
        ("one answer to a share fetch", f"{fetching.BYTES_MAX // MIB} MiB"),
        ("one answer to a share fetch", f"{shown(fetching.RECORDS_MAX)} records"),
        ("one answer to a share fetch", f"{fetching.READ_MAX} partitions"),
        ("offsets that are acknowledged", shown(share_answers.CLAIM_MAX)),
        ("topics that a consumer of a group", shown(consumer_group_heartbeat.TOPICS_MAX)),
        ("topics that a consumer of a group", shown(consumer_group_heartbeat.PARTITIONS_MAX)),
        ("members, tasks of a streams group", f" {streams_checks.SUBTOPOLOGIES_MAX},"),
        ("members, tasks of a streams group", shown(configured.SOURCES_MAX)),
        ("endpoints that a member", shown(endpoints.TOLD_MAX)),
        ("connections accepted at a port", f"{peer_listener._ACCEPTS_PER_TURN} in a turn"),
        ("connections accepted at a port", f"{peer_listener._REST_SECONDS * SECOND:g} ms without"),
        ("frames without an end", f"{peer_listener.UNENDED_BYTES_MAX // MIB} MiB"),
        ("entries of the metadata log", f"{applying.PORTION}, where"),
        ("entries of the metadata log", f"more than {applying.BYTES_OF_ONE} bytes"),
        ("frames of its master's log", shown(run_check.FRAMES_MAX)),
        ("frames of its master's log", f"{run_check.BYTES_MAX // MIB} MiB"),
        ("a newcomer whose connection", f"{rebalance.GONE_CHECK_MS // SECOND} s"),
        ("groups that commits make", f"{GROUP_OVERHEAD_BYTES // KIB} KiB each"),
        ("records of a partition of groups", f"{journal.LOAD_TOGETHER} records"),
        ("transactional ids of a coordinator", f"some {id_table.ID_BYTES} bytes each"),
        ("partitions of one transaction", f"some {transactions.PLACE_BYTES} bytes each"),
        ("requests that wait for the last marker", shown(ends.WAITING_MAX)),
        ("of these, questions of brokers", f"{ends.CALLS_MAX} of a coordinator"),
        ("learners that a controller serves", shown(RaftConfig().learners_max)),
        ("voters that are given", shown(RaftConfig().learner_lag_entries_max)),
        ("topics that a process passes", f"{shown(codec.ELEMENTS_MAX)}, and"),
        ("topics that a process passes", shown(codec.NESTED_MAX)),
        ("disk that an empty log takes", f"{disk_room.FILES_AHEAD} times"),
        ("log file of a launched node", f"{node_files.LOG_BYTES_MAX // MIB} MiB"),
        ("nodes of `penstock up`", shown(up.NODES_MAX)),
        ("nodes of one machine", shown(plan.NODES_MAX)),
        ("a node's page", f"{supervised_node.PAGE_BYTES_MAX // MIB} MiB, {PATIENCE.page_s:g} s"),
        ("the end of a node", f"{PATIENCE.stop_s:g} s"),
        ("a node that comes back", f"{PATIENCE.in_step_s:g} s, or {rolling.FAILURES_MAX} ends"),
    ],
)
def test_a_bound_on_the_page_is_the_one_in_the_code(row: str, said: str) -> None:
    found = [f"{what} {bound}" for what, bound in ROWS.items() if what.startswith(row)]
    assert len(found) == 1
    assert said in found[0]
