"""What coordinators of every kind share: records in an internal topic, replayed and rewritten.

    request ─► shard: what may be asked? ─► Writes ─► journal ─► confirmed ─► state, answer
    log     ─► CoordinatorRuntime ─► loader of the shard ─────────────────► state

A kind of coordinator is a shard (shard.py): it says what its records mean. Everything else is here,
without I/O: taking partitions over and giving them up, what is under way, portions of long work,
answers, deadlines, and rewriting while there is no compaction. `penstock.broker.coordinators` binds
a kind to its internal topic.

Source: Kafka, CoordinatorRuntime and CoordinatorShard; docs/adr/0066.
"""
