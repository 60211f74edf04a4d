"""Functions that no simulated run can call, and why; patterns as in `fnmatch`.

The table reports exceptions that were called after all, so that this list stays correct.
"""

_REAL = "stands on real sockets, threads or files; simulator/kernel has a twin under one contract"
_TWIN = "the compiled twin is called in its place; both pass the same tests"
_EARLIER = "reads what an earlier release wrote; tests/controller has its bytes"
_TESTS_ALONE = "no process sends the command: masterships begin by elections; tests set up with it"
_MANY = "for more groups or members than a simulated cluster has; tests/kafka asks for so many"
_LOOKED_AT = "tells tests how things stand; nothing in a node asks for it"
_NOT_WRITTEN_YET = "no command writes carried records (ADR 0067)"
_PROCESS = "of a real process beside the node; SimHousekeeper does the same jobs with its code"
_TLS = "of listeners with TLS, which a simulated connection does not carry; tests/node has it"

_TOKENS = (
    "of an identity provider's tokens, taken over TLS alone; tests/access and tests/compat have it"
)
_SIGNED = "of listeners whose clients sign; tests/remoting/test_signed.py has it"
_HELD_BACK = "of a gRPC client above its quota, which no simulated one has; tests/grpc has them"
_OF_THE_STORE = "for those who read the store themselves, as Spark does; tests/spark has it"
_SIGNED_CALLS = "of gRPC clients that sign, which no simulated one does; tests/grpc has them"
_OPERATORS = "asked by RocketMQ's tools alone, by no client; tests/remoting/test_admin*.py has it"
_HEAVY = "for requests of a size that simulated clients do not send; tests/remoting sends them"
_FILTERED = (
    "of pulls that wait with a filter, which no simulated one does; tests/remoting/filters does"
)
_STANDS_IN = "stands in until the parts of a node know each other; before that nobody asks"
_NOBODY_ASKS = "whoever would ask looks at permits_all before, and does not"

EXCEPTIONS: dict[str, str] = {
    "runtime/io/http_server.py:*": _REAL,
    "runtime/io/object_store.py:*": _REAL,
    "runtime/io/hdfs_*.py:*": _REAL,
    "runtime/io/disk.py:[!D]*": _REAL,
    "runtime/io/gather.py:*": _REAL,
    "runtime/io/clock.py:SystemClock.*": _REAL,
    "runtime/io/clock.py:LoopScheduler.call_later": _REAL,
    "runtime/io/cores.py:*": _PROCESS,
    "runtime/io/end_signals.py:*": _PROCESS,
    "runtime/io/modesty.py:*": _PROCESS,
    "runtime/io/passing.py:*": _PROCESS,
    "runtime/housekeeper.py:HousekeeperProcess.*": _PROCESS,
    "access/bearer.py:*": _TOKENS,
    "access/tokens.py:*": _TOKENS,
    "access/issuing.py:*": _TLS,
    "access/mapping.py:Rule.apply": _TLS,
    "access/mapping.py:_filled": _TLS,
    "access/mapping.py:short_name": _TLS,
    "access/subject.py:*": _TLS,
    "kafka/sasl/doors.py:certificate_door": _TLS,
    "kafka/sasl/doors.py:_by_certificate": _TLS,
    "remoting/signed.py:*": _SIGNED,
    "kafka/handlers/*/describe_producers.py:_tier": _OF_THE_STORE,
    "access/call_signatures.py:*": _SIGNED_CALLS,
    "grpc/signed.py:*": _SIGNED_CALLS,
    "grpc/client.py:GrpcClient.mute": _HELD_BACK,
    "grpc/transport.py:GrpcConnection.mute": _HELD_BACK,
    "grpc/transport.py:GrpcConnection._unmute": _HELD_BACK,
    "grpc/consuming/attempts.py:Attempts.__len__": _LOOKED_AT,
    "remoting/filters/waiting.py:[!W]*": _FILTERED,
    "remoting/filters/waiting.py:Waits.[!_bt]*": _FILTERED,
    "remoting/handlers/pull.py:_Pull.wait": _FILTERED,
    "remoting/handlers/pull.py:_Pull.gone": _HEAVY,
    "remoting/handlers/admin/[!lq]*": _OPERATORS,
    "remoting/handlers/admin/queue_tables.py:*": _OPERATORS,
    "remoting/operating/arrivals.py:Arrivals.wait_for*": _OPERATORS,
    "remoting/operating/resets.py:PendingResets.mark": _OPERATORS,
    "remoting/operating/resets.py:_key": _OPERATORS,
    "remoting/members.py:GroupMembers.members": _OPERATORS,
    "remoting/members.py:GroupMembers.group_names": _OPERATORS,
    "remoting/halves/producers.py:Producers.connections": _OPERATORS,
    "remoting/operating/rates.py:Rates.of": _OPERATORS,
    "remoting/operating/rates.py:Rates._begin": _OPERATORS,
    "remoting/gate.py:check_create": _OPERATORS,
    "broker/coordinators/positions.py:GroupPositions.page": _OPERATORS,
    "broker/coordinators/positions.py:GroupPositions.delete": _OPERATORS,
    "broker/coordinators/positions.py:GroupPositions.answer_all": _OPERATORS,
    "broker/coordinators/positions.py:GroupPositions.answer_deletion": _OPERATORS,
    "remoting/excerpts.py:Excerpts._begin*": _HEAVY,
    "remoting/excerpts.py:Excerpts.make.*": _HEAVY,
    "remoting/handlers/assignments.py:_tell_many": _HEAVY,
    "remoting/handlers/locks.py:_in_turns": _HEAVY,
    "remoting/pop/serving.py:ended": _HEAVY,
    "remoting/handlers/send.py:handle.*": _HEAVY,
    "remoting/handlers/sent_messages.py:many_messages": _HEAVY,
    "remoting/handlers/sent_messages.py:_decoded": _HEAVY,
    "remoting/handlers/sent_messages.py:_unpacked*": _HEAVY,
    "remoting/handlers/sent_messages.py:_plain": _HEAVY,
    "remoting/wire/body_codec.py:_inflate*": _HEAVY,
    "remoting/wire/body_codec.py:plain_body*": _HEAVY,
    "storage/read/regions.py:choose": _TWIN,
    "frames/frames.py:put_batch_frame": _TWIN,
    "kafka/handlers/groups/*:handle_much": _MANY,
    "kafka/handlers/groups/offset_fetch.py:_fetch_all": _MANY,
    "kafka/handlers/groups/join_group.py:_fields_of_many": _MANY,
    "controller/metadata/causes.py:read_old": _EARLIER,
    "controller/metadata/records.py:_with_cause_apart": _EARLIER,
    "controller/commands/masterships.py:begin_mastership": _TESTS_ALONE,
    "controller/commands/masterships.py:end_mastership": _TESTS_ALONE,
    "broker/fetch/read_ahead.py:ReadAhead.kept_bytes": _LOOKED_AT,
    "broker/look_ups.py:LookUps.waiting": _LOOKED_AT,
    "broker/look_ups.py:LookUps.in_progress": _LOOKED_AT,
    "broker/sets/retention_clock.py:RetentionClock.is_held": _LOOKED_AT,
    "broker/access.py:PermitsAll.*": _NOBODY_ASKS,
    "broker/broker.py:_nobody": _STANDS_IN,
    "broker/sets/leftovers.py:_never": _STANDS_IN,
    "kafka/broker_configs.py:NoSettings.[!_]*": _STANDS_IN,
    "storage/commit_log/retention.py:_keep_*": _STANDS_IN,
    "storage/commit_log/retention.py:_confirms_itself": _STANDS_IN,
    "storage/commit_log/retention.py:_nothing_older": _STANDS_IN,
    "storage/replicate/run_append.py:_no_partition": _STANDS_IN,
    "controller/metadata/replay_config.py:_carried": _NOT_WRITTEN_YET,
    "controller/metadata/record_codec.py:_carried": _NOT_WRITTEN_YET,
}
