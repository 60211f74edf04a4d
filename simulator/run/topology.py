"""The hosts of a simulated cluster, and the settings of its processes.

All time settings are scaled down from production by about the same factor, so that a fault and its
consequences take little virtual time: a session ends after 1 s, an election begins after 0.15 to
0.3 s. Sizes are small too: a log rolls, seals and takes snapshots within one run.
"""

from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from penstock.access.config import AccessConfig, AuthoriserKind
from penstock.access.sasl import BY_PASSWORD
from penstock.broker.config import BrokerConfig, SlaveReads
from penstock.controller.config import ControllerConfig
from penstock.controller.topic_config.table import TopicSettings
from penstock.groups.config import GroupConfig
from penstock.grpc.config import LISTENER_NAME as GRPC
from penstock.grpc.config import GrpcConfig
from penstock.node.identity import FORMAT_VERSION, DataDirectory, Identity
from penstock.node.settings.cluster_config import ClusterConfig
from penstock.node.settings.config import NodeConfig
from penstock.node.settings.security_config import SecurityConfig
from penstock.node.settings.settings import NodeSettings
from penstock.raft.ids import DirectoryId
from penstock.remoting.config import LISTENER_NAME as REMOTING
from penstock.remoting.config import RemotingConfig
from penstock.replication.config import ReplicationConfig
from penstock.runtime.raft.config import RaftLogConfig
from penstock.shares.config import ShareConfig
from penstock.storage.config import FlushPolicy, LogConfig
from penstock.tier.config import TierConfig
from simulator.run.plan import REWRITE_BYTES, Shape

CLUSTER_ID = "simulated-cluster-000"
KAFKA_PORT, CONTROLLER_PORT, HA_PORT = 9092, 9093, 9094
SECURE_PORT = 9095
"""Of the listener that asks clients who they are, where rules decide."""
SECURE = "secure"
REMOTING_PORT = 9096
"""Of RocketMQ's clients, which are not asked who they are."""
GRPC_PORT = 9097
"""Of its gRPC clients, likewise."""
CHECK_MS = 1_000
"""After how long producers are asked about a half message, and asked again."""
CHECKS_MAX = 3
ROOT, ROOTS_PASSWORD = "root", "the simulated root's password"
"""Who may everything, and makes the first rule."""
AUTHENTICATED_MS = 3_000
"""After so long a client has to prove again who it is."""
USERS_FILE = "users"
TOKENS_FILE = "tokens"
TOKENS_SECRET = "what the simulated cluster's tokens are derived from"  # noqa: S105  of a simulation
TOKEN_MS, TOKEN_MS_MAX = 8_000, 60_000
"""How long a delegation token is good at first and after a renewal, and at most."""
TOKENS_LOOKED_AT_MS = 1_000
FIRST_CONTROLLER_ID = 101
TOPIC = "history"

FIRST_SEGMENT_BYTES = 65_536
"""Smaller than most shapes' segments: their logs grow through files of several sizes."""

CLOSE_EARLY_MS = 1_000
"""Files are closed early many times in a run; see early_roll.py."""

SHARES_BYTES = 2_000
"""Growth that makes a journal of shares worth a rewrite."""

PARTITIONS = 2
"""Of the internal topic, in runs with groups or movers."""

AUDIT_FOLD_MS = 1_000

PUSH_BYTES_MAX = 4_096
"""Of what a client pushes of its own metrics: some push more."""

WALL_START_MS = 1_800_000_000_000
"""What the clocks on the wall show when virtual time is 0."""

STORE_URL = "file:///simulated/store"
"""Nothing is opened there: each host has its way to the store of the cluster."""
SKEW_MS = 6_000
"""Longer than two pauses of a host that follow each other, and than a put may be under way."""

SESSION_TIMEOUT_MS = 1_000
STREAMS_SESSION_MS = 3_000
"""How long a member of a streams group may be silent, and has to give tasks up."""
LEASE_MS = 600
"""Below the session time-out by more than the longest election time-out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """One simulated server and what runs on it."""

    name: str
    process_id: int
    is_broker: bool
    is_controller: bool


def hosts_of(shape: Shape) -> tuple[Host, ...]:
    """Return the servers of a cluster."""
    if not shape.is_apart:
        return tuple(
            Host(name=f"n{number}", process_id=number, is_broker=True, is_controller=True)
            for number in (1, 2, 3)
        )
    brokers = tuple(
        Host(name=f"b{number}", process_id=number, is_broker=True, is_controller=False)
        for number in (1, 2, 3)
    )
    controllers = tuple(
        Host(
            name=f"c{number}",
            process_id=FIRST_CONTROLLER_ID - 1 + number,
            is_broker=False,
            is_controller=True,
        )
        for number in (1, 2, 3)
    )
    return brokers + controllers


def clock_rate(host: Host, shape: Shape) -> float:
    """Return how fast the host's clocks go: 1 is right."""
    return 1 + (0, 1, -1)[(host.process_id - 1) % 3] * shape.clock_drift_ppm / 1_000_000


def machine_of(host: Host, shape: Shape) -> str:
    """Return the computer that the host's process is said to run on."""
    return f"m{host.process_id % shape.machines}" if shape.machines else host.name


def settings_of(host: Host, shape: Shape, secret_file: Path) -> NodeSettings:
    """Return what the host's process is started with."""
    voters = tuple(
        f"{one.process_id}@{one.name}:{CONTROLLER_PORT}"
        for one in hosts_of(shape)
        if one.is_controller
    )
    return NodeSettings(
        node=NodeConfig(
            broker_id=host.process_id,
            cluster_id=CLUSTER_ID,
            data_directories=(str(data_path(host)),),
            host=host.name,
            machine=machine_of(host, shape),
            rack=f"rack of {machine_of(host, shape)}" if shape.machines else "",
            port=KAFKA_PORT,
            listeners=(f"{SECURE}://{host.name}:{SECURE_PORT}",) if shape.administrators else (),
            metrics_port=0,
        ),
        access=_access(shape),
        security=_security(host, shape, secret_file.parent),
        cluster=ClusterConfig(
            voters=voters,
            controller_port=CONTROLLER_PORT if host.is_controller else 0,
            ha_port=HA_PORT if host.is_broker else 0,
            secret_file=str(secret_file),
            start_timeout_ms=2_000,
        ),
        broker=BrokerConfig(
            housekeeping_interval_ms=_housekeeping_ms(shape),
            slave_reads=SlaveReads(shape.slave_reads),
            audit=shape.audited > 0,
            audit_fold_ms=AUDIT_FOLD_MS,
            client_metrics=shape.pushers > 0,
            client_metrics_bytes_max=_push_bytes_max(shape),
            message_trace_percent=shape.trace_percent,
        ),
        log=_log(shape),
        replication=_replication(shape),
        controller=_controller(shape),
        raft=_raft(shape),
        groups=_groups(shape),
        shares=_shares(shape),
        tier=_tier(shape) if host.is_broker else TierConfig(),
        remoting=_remoting(host, shape),
        grpc=GrpcConfig(host=host.name, port=GRPC_PORT if _has(host, shape.grpc) else 0),
        topic=TopicSettings(min_insync_replicas=shape.min_insync_replicas),
    )


def _push_bytes_max(shape: Shape) -> int:
    return PUSH_BYTES_MAX if shape.pushers else BrokerConfig().client_metrics_bytes_max


def _access(shape: Shape) -> AccessConfig:
    if not shape.administrators:
        return AccessConfig()
    return AccessConfig(authorizer=AuthoriserKind.ACL, super_users=(f"User:{ROOT}",))


def _security(host: Host, shape: Shape, directory: Path) -> SecurityConfig:
    """Let the second listener ask for users; the file has those of PLAIN and SCRAM."""
    ports = {REMOTING: shape.remoting, GRPC: shape.grpc}
    open_listeners = tuple(name for name, clients in ports.items() if _has(host, clients))
    if not shape.administrators:
        return SecurityConfig(open_listeners=open_listeners)
    users_file = directory / USERS_FILE
    return SecurityConfig(
        listener_security_protocol_map=(f"{SECURE}:SASL_PLAINTEXT",),
        sasl_enabled_mechanisms=BY_PASSWORD,
        sasl_plain_users_file=str(users_file),
        sasl_plain_without_tls=True,
        scram_first_users_file=str(users_file),
        delegation_token_secret_file=str(directory / TOKENS_FILE),
        connections_max_reauth_ms=AUTHENTICATED_MS,
        open_listeners=open_listeners,
    )


def data_path(host: Host) -> Path:
    """Return where the host's data directory is said to be; no real file system has it."""
    return Path(PurePosixPath("/simulated") / host.name)


def data_directory(host: Host) -> DataDirectory:
    """Return the host's one data directory; nobody else can lock it, so nobody does."""
    identity = Identity(
        format_version=FORMAT_VERSION,
        cluster_id=CLUSTER_ID,
        broker_id=host.process_id,
        directory_id=DirectoryId(f"directory-of-{host.name}"),
    )
    return DataDirectory(path=data_path(host), identity=identity, lock=-1)


def _log(shape: Shape) -> LogConfig:
    return LogConfig(
        segment_bytes=shape.segment_bytes,
        first_segment_bytes=FIRST_SEGMENT_BYTES,
        staging_bytes=32_768,
        large_batch_bytes=8_192,
        checkpoint_interval_bytes=32_768,
        checkpoint_interval_ms=100,
        reserve_bytes=0,
        level0_bytes=shape.level0_bytes,
        close_early_ms=CLOSE_EARLY_MS,
        cleaner_memory_bytes=1 << 20,
        space_check_ms=100,
        index_cache_bytes=65_536,
        flush_policy=FlushPolicy.ASYNC if shape.is_flushed_later else FlushPolicy.SYNC,
    )


def _replication(shape: Shape) -> ReplicationConfig:
    return ReplicationConfig(
        replica_lag_time_ms=1_000,
        disconnect_grace_ms=100,
        change_retry_ms=40,
        keep_alive_ms=150,
        link_silence_ms=600,
        reconnect_ms=10,
        reconnect_ms_max=200,
        dial_timeout_ms=400,
        run_bytes=16_384,
        in_flight_bytes=65_536,
        copy_bytes_per_second=shape.copy_bytes_per_second,
        lease_ms=LEASE_MS,
    )


def _housekeeping_ms(shape: Shape) -> int:
    is_busy = shape.retention_bytes >= 0 or shape.group_rewrite_bytes < REWRITE_BYTES
    return 500 if is_busy or shape.level0_bytes >= 0 else 5_000


def _groups(shape: Shape) -> GroupConfig:
    if not any(
        (shape.groups, shape.movers, shape.sharers, shape.streams, shape.remoting, shape.grpc)
    ):
        return GroupConfig()
    return GroupConfig(
        partition_count=PARTITIONS,
        session_timeout_min_ms=500,
        streams_session_timeout_ms=STREAMS_SESSION_MS,
        streams_heartbeat_interval_ms=500,
        streams_initial_delay_ms=200,
        streams_standby_replicas=1,
        initial_rebalance_delay_ms=100,
        new_member_join_timeout_ms=3_000,
        offsets_retention_ms=shape.group_kept_ms,
        expiry_check_interval_ms=500,
        rewrite_after_bytes=shape.group_rewrite_bytes,
    )


def _shares(shape: Shape) -> ShareConfig:
    """Let what shares have written be rewritten all the time."""
    if not (shape.sharers or shape.remoting or shape.grpc):
        return ShareConfig()
    return ShareConfig(rewrite_after_bytes=SHARES_BYTES)


def _tier(shape: Shape) -> TierConfig:
    """Let objects be small. The skew covers a host that stands still, and a put that lands late."""
    if not shape.is_tiered:
        return TierConfig()
    return TierConfig(
        url=STORE_URL,
        object_bytes=16_384,
        merge_bytes=shape.merge_bytes,
        merge_ms=shape.merge_ms,
        merge_runs=shape.merge_runs,
        look_ms=100,
        upload_ms=1_000,
        skew_ms=SKEW_MS,
        lease_ms=500,
        grace_ms=1_000,
    )


def _has(host: Host, clients: int) -> bool:
    """Whether a host has the port for clients that there are so many of."""
    return host.is_broker and clients > 0


def _remoting(host: Host, shape: Shape) -> RemotingConfig:
    """Return the port of remoting clients, and when producers of both protocols are asked."""
    if not _has(host, shape.remoting + shape.grpc):
        return RemotingConfig()
    return RemotingConfig(
        host=host.name,
        port=REMOTING_PORT if shape.remoting else 0,
        transaction_first_check_ms=CHECK_MS,
        transaction_check_interval_ms=CHECK_MS,
        transaction_checks_max=CHECKS_MAX,
    )


def _controller(shape: Shape) -> ControllerConfig:
    return ControllerConfig(
        default_partitions=shape.partitions,
        default_replication_factor=shape.replication_factor,
        heartbeat_interval_ms=150,
        session_timeout_ms=SESSION_TIMEOUT_MS,
        probe_timeout_ms=100,
        election_retry_ms=100,
        transfer_timeout_ms=500,
        preferred_master_delay_ms=shape.preferred_master_delay_ms,
        delegation_token_expiry_time_ms=TOKEN_MS,
        delegation_token_max_lifetime_ms=TOKEN_MS_MAX,
        delegation_token_expiry_check_interval_ms=TOKENS_LOOKED_AT_MS,
        tiered_topics=shape.is_tiered,
    )


def _raft(shape: Shape) -> RaftLogConfig:
    return RaftLogConfig(
        tick_ms=25,
        heartbeat_ms=50,
        election_timeout_min_ms=150,
        election_timeout_max_ms=300,
        lost_leader_ms_max=75,
        learner_hello_ms=200,
        disk_stall_ms=800,
        snapshot_after_bytes=shape.snapshot_after_bytes,
        dial_timeout_ms=300,
        redial_min_ms=20,
        redial_max_ms=200,
    )
