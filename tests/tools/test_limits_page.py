"""docs/operations/limits.md says of each bound that is no setting what the code has."""

from pathlib import Path

import pytest

from penstock.broker import topics_on_demand
from penstock.broker.fetch import long_fetch
from penstock.broker.fetch import partition_shares as fetch_partitions
from penstock.cli import up
from penstock.cli.machine import plan, rolling, supervised_node
from penstock.controller.active import transfers
from penstock.controller.commands import membership, replica_sets, topic_names
from penstock.controller.metadata import record_codec
from penstock.kafka import long_requests
from penstock.kafka.handlers.groups import join_group
from penstock.kafka.handlers.records import fetch
from penstock.kafka.transactions import marking
from penstock.net import peer_auth, peer_errors, peer_link, peer_listener, tls_gate
from penstock.node import peers
from penstock.protocol import decode, header, produce
from penstock.replica import followed_set
from penstock.replication import wire
from penstock.runtime import controller_driver
from penstock.runtime.calls import messages as call_messages
from penstock.runtime.calls.ports import USUAL_LIMITS
from penstock.runtime.ha import client
from penstock.runtime.io import http_server
from penstock.runtime.session import messages, service
from penstock.storage.replicate import base_export

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
        ("connections to the metrics port", shown(http_server.CONNECTIONS_MAX)),
        ("of them with other pages than", shown(http_server.ASKED_MAX)),
        ("of them with other pages than", f"{http_server.ANSWER_TIMEOUT_S:.0f} s"),
        ("connections to the metrics port", f"{http_server.REQUEST_BYTES_MAX // KIB} KiB"),
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
        ("questions of a broker to another", f"{call_messages.FRAME_BYTES_MAX // KIB} KiB"),
        ("questions of a broker to another", f"{shown(call_messages.PARTITIONS_MAX)} partitions"),
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
