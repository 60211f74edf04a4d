"""Functions that no simulated run can call, and why; patterns as in `fnmatch`.

The table reports exceptions that were called after all, so that this list stays correct.
"""

_REAL = "stands on real sockets, threads or files; simulator/kernel has a twin under one contract"
_TWIN = "the compiled twin is called in its place; both pass the same tests"
_OTHER_CONSENSUS = "no etcd is simulated; one contract test runs on Raft and on a real etcd"
_OFFLINE = "for a data directory without a process: `penstock log` calls it, no node does"
_COMMAND_LINE = "for what is shown: `penstock cluster` and `penstock set` call it, no node does"
_NOT_WRITTEN_YET = "no command writes configuration beside topics yet (ADR 0067)"
_LEVELS = "random plans leave levels as they are; tests/sim/test_directed_levels.py changes them"

EXCEPTIONS: dict[str, str] = {
    "runtime/etcd/[!c]*": _OTHER_CONSENSUS,
    "runtime/etcd/client.py:*": _OTHER_CONSENSUS,
    "runtime/io/http_server.py:*": _REAL,
    "runtime/io/disk.py:[!D]*": _REAL,
    "runtime/io/gather.py:*": _REAL,
    "runtime/io/clock.py:SystemClock.*": _REAL,
    "storage/read/regions.py:choose": _TWIN,
    "storage/commit_log/frames.py:put_batch_frame": _TWIN,
    "storage/inspect/dump.py:*": _OFFLINE,
    "storage/inspect/pins_of_files.py:*": _OFFLINE,
    "controller/metadata/metadata_file.py:*": "kept beside an etcd",
    "controller/commands/leader_plan.py:*": _COMMAND_LINE,
    "controller/commands/spread.py:conflicts": _COMMAND_LINE,
    "controller/metadata/replay_config.py:keep_config": _NOT_WRITTEN_YET,
    "controller/metadata/replay_config.py:_[!f]*": _NOT_WRITTEN_YET,
    "controller/metadata/record_codec.py:_carried": _NOT_WRITTEN_YET,
    "controller/metadata/config_records.py:ScramCredentialChanged.*": _NOT_WRITTEN_YET,
    "controller/metadata/declare.py:read_float": _NOT_WRITTEN_YET,
    "controller/metadata/declare.py:read_bytes": _NOT_WRITTEN_YET,
    "controller/metadata/replay_config.py:_forget_machines": _LEVELS,
    "controller/commands/features.py:change_feature_level": _LEVELS,
    "controller/commands/features.py:_above": _LEVELS,
    "controller/metadata/configuration.py:Configuration.above": _LEVELS,
    "controller/errors.py:FeatureLevel*": _LEVELS,
    "runtime/session/service_features.py:*": _LEVELS,
}
