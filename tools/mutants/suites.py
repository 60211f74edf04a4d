"""Which tests are tried for a bug: those of its room, quickest first, then of the rooms above."""

RAFT = (
    "tests/raft/test_raft_paper.py",
    "tests/raft/test_raft_paper_snapshots.py",
    "tests/raft/test_raft_thesis.py",
    "tests/raft/test_quorum.py",
    "tests/raft/test_members.py",
    "tests/raft/test_log.py",
    "tests/raft",
)
RAFT_FILES = (
    "tests/runtime/test_raft_storage_interrupted.py",
    "tests/runtime/test_raft_storage.py",
    "tests/runtime/test_raft_log.py",
    "tests/runtime/test_raft_numbering.py",
    "tests/controller/test_raft_log_contract.py",
)
RECOVERY = (
    "tests/storage/test_recovery.py",
    "tests/storage/test_producers.py",
    "tests/storage/test_epoch_at_segment_end.py",
    "tests/storage/test_set_log_model.py",
)
WRITING = (
    "tests/storage/test_space_and_faults.py",
    "tests/storage/test_space_waiting.py",
    "tests/storage/test_claim.py",
    "tests/storage/test_recovery.py",
    "tests/storage/test_set_log_model.py",
)
FOLLOWING = (
    "tests/storage/test_runs.py",
    "tests/storage/test_epoch_at_segment_end.py",
    "tests/storage/test_replica_model.py",
)
CUTTING = (
    "tests/storage/test_truncation.py",
    "tests/storage/test_base_copy.py",
    "tests/storage/test_replica_model.py",
)
RETENTION = ("tests/storage/test_retention.py", "tests/storage/test_set_log_model.py")
PRODUCERS = ("tests/storage/test_producers.py", "tests/broker/test_batches_end_to_end.py")
DISK = (
    "tests/runtime/test_disk_durability.py",
    "tests/runtime/test_disk.py",
    "tests/runtime/test_disk_replicas.py",
)
CONFIRM = (
    "tests/replication/test_ack_policy.py",
    "tests/replication/test_confirm.py",
    "tests/replica/test_replica_set.py",
)
ALIGN = ("tests/replication/test_alignment.py", "tests/replication/test_epochs.py")
IN_STEP = ("tests/replication/test_sync_state.py",)
LEASE = (
    "tests/replication/test_lease.py",
    "tests/replica/test_slave_session.py",
    "tests/runtime/test_ha_faults.py",
)
LINKS = (
    "tests/replica/test_followed_set.py",
    "tests/replica/test_slave_session.py",
    "tests/runtime/test_ha_server.py",
    "tests/runtime/test_ha_replication.py",
    "tests/runtime/test_ha_faults.py",
    "tests/runtime/test_ha_failed_log.py",
    "tests/runtime/test_ha_promises.py",
    "tests/runtime/test_ha_transfer.py",
    "tests/runtime/test_replica_manager.py",
    "tests/runtime/test_resumed_masterships.py",
)
MEMBERS = (
    "tests/replica/test_cut_member.py",
    "tests/replica/test_replica_set.py",
    "tests/replica/test_replica_set_roles.py",
    "tests/broker/test_role_changes.py",
    "tests/broker",
    "tests/kafka",
)
BROKER = (
    "tests/broker/test_role_changes.py",
    "tests/broker/test_batches_end_to_end.py",
    "tests/kafka/test_produce_fetch.py",
    "tests/broker",
    "tests/kafka",
)
ELECTION = (
    "tests/controller/test_election.py",
    "tests/controller/test_failover.py",
    "tests/controller/test_overlap.py",
    "tests/controller/test_registration.py",
)
CONTROLLER = (
    "tests/controller/test_features.py",
    "tests/runtime/test_features.py",
    "tests/runtime/test_controller_driver_leadership.py",
    "tests/controller/test_late_words.py",
    "tests/controller/test_failover.py",
    "tests/controller/test_registration.py",
    "tests/controller/test_transfers.py",
    "tests/controller/test_liveness.py",
    "tests/controller",
)
SESSIONS = (
    "tests/controller/test_liveness.py",
    "tests/runtime/test_controller_service.py",
    "tests/runtime/test_session.py",
    "tests/runtime/test_session_active.py",
    "tests/runtime/test_session_questions.py",
)
GROUPS = (
    "tests/coordinator/test_confirmed_map.py",
    "tests/groups/test_loading.py",
    "tests/groups/test_commits.py",
    "tests/broker/test_group_journal.py",
    "tests/broker/test_group_ownership.py",
    "tests/groups",
)

_ALL = (
    "tests/access",
    "tests/record",
    "tests/extents",
    "tests/quotas",
    "tests/audit",
    "tests/telemetry",
    "tests/compaction",
    "tests/finding",
    "tests/tier",
    "tests/remoting",
    "tests/grpc",
    "tests/http_front",
    "tests/net",
    "tests/raft",
    "tests/replication",
    "tests/controller",
    "tests/coordinator",
    "tests/groups",
    "tests/shares",
    "tests/transactions",
    "tests/storage",
    "tests/housekeeper",
    "tests/replica",
    "tests/broker",
    "tests/kafka",
    "tests/runtime",
    "tests/node",
    "tests/access",
    "tests/cli",
    "tests/client",
    "tests/archive",
    "tests/spark",
)
_ROOMS_ABOVE = {
    "access": ("tests/access", "tests/kafka", "tests/node"),
    "record": ("tests/record", "tests/compaction", "tests/broker", "tests/kafka"),
    "raft": ("tests/raft", "tests/runtime", "tests/controller"),
    "storage": (
        "tests/storage",
        "tests/replica",
        "tests/broker",
        "tests/kafka",
        "tests/runtime",
        "tests/node",
    ),
    "extents": ("tests/extents", "tests/compaction", "tests/tier", "tests/storage"),
    "compaction": ("tests/compaction",),
    "finding": ("tests/finding", "tests/broker", "tests/remoting"),
    "tier": ("tests/tier",),
    "remoting": ("tests/remoting",),
    "grpc": ("tests/grpc",),
    "http": ("tests/http_front",),
    "housekeeper": ("tests/housekeeper", "tests/broker", "tests/runtime"),
    "protocol": ("tests/protocol", "tests/kafka"),
    "frames": ("tests/storage", "tests/replica", "tests/broker", "tests/runtime"),
    "replication": (
        "tests/replication",
        "tests/replica",
        "tests/broker",
        "tests/kafka",
        "tests/runtime",
    ),
    "base": ("tests/replication", "tests/controller", "tests/broker", "tests/runtime"),
    "controller": ("tests/controller", "tests/runtime", "tests/node"),
    "coordinator": ("tests/coordinator", "tests/groups", "tests/broker", "tests/kafka"),
    "assignors": ("tests/groups", "tests/broker", "tests/kafka"),
    "groups": ("tests/groups", "tests/broker", "tests/kafka", "tests/runtime"),
    "transactions": ("tests/transactions", "tests/broker", "tests/kafka", "tests/runtime"),
    "shares": ("tests/shares", "tests/coordinator"),
    "quotas": ("tests/quotas", "tests/kafka", "tests/controller"),
    "telemetry": ("tests/telemetry", "tests/kafka"),
    "protobuf": ("tests/grpc", "tests/telemetry"),
    "audit": ("tests/audit", "tests/broker", "tests/cli"),
    "net": ("tests/net", "tests/kafka", "tests/broker", "tests/node"),
    "replica": ("tests/replica", "tests/runtime", "tests/broker", "tests/kafka"),
    "broker": ("tests/broker", "tests/kafka", "tests/runtime", "tests/node"),
    "kafka": ("tests/kafka", "tests/broker", "tests/node"),
    "runtime": ("tests/runtime", "tests/controller", "tests/node"),
    "node": ("tests/node",),
    "cli": ("tests/cli",),
    "client": ("tests/client", "tests/archive", "tests/spark"),
    "spark": ("tests/spark",),
    "archive": ("tests/archive",),
}


def wide(paths: tuple[str, ...]) -> tuple[str, ...]:
    """Return all directories whose tests could see a change of these files, in a fixed order."""
    wanted = {suite for path in paths for suite in _ROOMS_ABOVE[path.partition("/")[0]]}
    return tuple(suite for suite in _ALL if suite in wanted)
