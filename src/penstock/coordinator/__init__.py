"""What coordinators of every kind share: records in an internal topic, replayed and rewritten.

    request ─► shard checks it ─► Writes ─► journal ─► confirmed ─► state, answer
    log     ─► CoordinatorRuntime ─► loader of the shard ─────────► state

A kind of coordinator is a shard (shard.py), which defines what its records mean. Everything else is
here, without I/O: loading and unloading partitions, writes under way, long work in portions,
answers, deadlines, and rewriting in place of compaction. `penstock.broker.coordinators` binds a
kind to its internal topic.

Source: Kafka, CoordinatorRuntime and CoordinatorShard; docs/adr/0066.
"""
