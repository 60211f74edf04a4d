"""Planted bugs of orders of events in transactions: markers, masterships, levels, searches."""

# ruff: noqa: E501  the text of the source, as it stands there

from .mutant import Kind, plant

CONTRACT = ("tests/coordinator/test_shards.py",)
GROUPS = ("tests/groups/test_transactional_commits.py",)
BROKER = ("tests/broker/test_transactional_offsets.py",)
APPENDS = ("tests/broker/test_transactional_appends.py",)
LATE = ("tests/kafka/test_late_markers.py",)
PLACES = ("tests/kafka/test_transaction_places.py",)
HERE = ("tests/kafka/test_coordinated_here.py",)
ENTERING = ("tests/kafka/test_entering.py",)
LEVELS = ("tests/controller/test_features.py",)
TOLD = ("tests/kafka/test_feature_handlers.py",)
ABORTED = ("tests/storage/test_aborted_index.py", "tests/storage/test_aborted_search.py")
REBUILT = ("tests/storage/test_rebuilt_aborted.py",)
LOADING = "groups/loading.py"
MARKERS = "broker/append/markers.py"
GUARDS = "broker/append/transactional.py"
VERIFIED = "kafka/transactions/verified.py"
MARKING = "kafka/transactions/marking.py"
FEATURES = "controller/commands/features.py"
INDEX = "storage/index/aborted.py"
LEAST = "storage/index/least.py"
AREA = "Transactions"

MUTANTS = (
    plant("a-marker-ends-one-group-only", AREA, "positions of further groups stay unstable for ever",
          ("groups/shard.py", "        groups = [table.groups[name] for name in names if name in table.groups]\n        if not", "        groups = [table.groups[name] for name in names if name in table.groups][:1]\n        if not"),
          kind=Kind.RANGE, near=GROUPS),
    plant("replay-lets-lost-positions-count", AREA, "after a load an older position of a transaction that ends later counts",
          (LOADING, "                self._pending.drop(name, order)\n", ""),
          kind=Kind.SNAPSHOT, near=BROKER),
    plant("replay-does-not-count-plain-commits", AREA, "after a load a transaction's position wins over a later plain commit",
          (LOADING, "            self._order += 1\n            self._pending.drop", "            self._pending.drop"),
          kind=Kind.SNAPSHOT, near=CONTRACT),
    plant("replay-takes-copies-for-commits", AREA, "the copy that a rewrite makes replaces what a transaction commits later",
          ("coordinator/runtime.py", "            loading.loader.load_copy(original)\n", "            loading.loader.load(original)\n"),
          kind=Kind.SNAPSHOT, near=CONTRACT),
    plant("loaded-writers-are-not-known", AREA, "a marker ends nothing of what was pending when the partition was loaded",
          (LOADING, "            self._groups.writers.setdefault(producer_id, {})[name.group_id] = None\n", ""),
          kind=Kind.SNAPSHOT, near=(*BROKER, *CONTRACT)),
    plant("early-outcome-of-a-marker-is-lost", AREA, "a marker that is confirmed before the partition is shown never counts",
          ("coordinator/runtime.py", "        for reason in self._outcome:\n            ended(reason)\n", ""),
          kind=Kind.CLEARED, near=CONTRACT),
    plant("late-positions-move-on-to-the-next-transaction", AREA, "a position of version 1 that a marker has overtaken goes back in the next transaction",
          (VERIFIED, "_CONCURRENT if adds else ErrorCode.INVALID_TXN_STATE", "_CONCURRENT if adds else code"),
          kind=Kind.ORDER, near=BROKER),
    plant("old-positions-are-asked-for-anew", AREA, "the same, by a second question with a new guard",
          (VERIFIED, "if not left or not adds or not", "if not left or not"),
          kind=Kind.ORDER, near=BROKER),
    plant("deleted-topics-take-pending-of-new-ones", AREA, "a topic is made anew, and loses the position that a transaction commits in it",
          ("groups/offsets/commits.py", "[latest[key], *pending.get(key, ())] if key in latest", "[latest[key]] if key in latest"),
          kind=Kind.GUARD, near=GROUPS),
    plant("own-markers-count-as-overtaken", AREA, "a transaction of version 1 stays open: its marker is taken for a late one",
          (MARKERS, "return NO_NUMBER < number < newest", "return NO_NUMBER < number <= newest"),
          kind=Kind.RANGE, near=(*LATE, *APPENDS)),
    plant("guards-of-earlier-masterships-have-numbers", AREA, "a guard from before an election keeps a marker away",
          (MARKERS, "    if guard is not None and guard.leader_epoch == hosted.member.leader_epoch:\n", "    if guard is not None:\n"),
          kind=Kind.EPOCH, near=(*LATE, *APPENDS)),
    plant("numbers-of-ended-transactions-stay", AREA, "memory of each producer that ever had a transaction is kept",
          (MARKERS, "    hosted.open_numbers.pop(ended.producer_id, None)\n", ""),
          kind=Kind.CLEARED, near=(*LATE, *APPENDS)),
    plant("markers-of-any-mastership-are-heeded", AREA, "a late marker for an earlier mastership ends the next transaction",
          (MARKING, "MarkedPartition(bytes(topic.topic_id), partition, epoch)", "MarkedPartition(bytes(topic.topic_id), partition)"),
          kind=Kind.EPOCH, near=LATE),
    plant("a-replaced-coordinator-still-asks", AREA, "a coordinator asks for markers after its metadata has named another",
          (MARKING, "        by_duty = {duty: places for duty, places in by_duty.items() if self._is_named(duty)}\n", ""),
          kind=Kind.ORDER, near=(*LATE, *PLACES)),
    plant("a-replaced-coordinator-takes-topics-for-deleted", AREA, "a transaction is over before all of its partitions have heard",
          (MARKING, "        if not self._is_named(one.duty):\n            return\n", ""),
          kind=Kind.ORDER, near=(*LATE, *PLACES)),
    plant("topics-made-anew-enter-by-name", AREA, "a partition enters that the coordinator knows by another id",
          ("kafka/transactions/places.py", "    return topic_id in {NO_TOPIC_ID, bytes(image.topic_id)}\n", "    return True\n"),
          kind=Kind.EPOCH, near=PLACES),
    plant("a-replaced-instance-takes-the-guard", AREA, "a batch of a fenced producer keeps that of the newer one out",
          (GUARDS, "        if not is_replaced:\n            hosted", "        if True:\n            hosted"),
          kind=Kind.EPOCH, near=APPENDS),
    plant("overtaken-batches-of-version-1-get-new-guards", AREA, "a batch that a marker has overtaken is written in the next transaction",
          ("kafka/produce/transactional.py", "asked.adds and await", "await"),
          kind=Kind.ORDER, near=APPENDS),
    plant("a-coordinator-does-not-wait-for-its-last-marker", AREA, "the first batch behind a commit is refused, and a producer of version 2 pauses after each transaction",
          ("kafka/transactions/answering.py", "            code = await enter(coordinator, name, producer, known, BUMPING_VERSION, is_call=True)\n", "            told = asyncio.get_running_loop().create_future()\n            coordinator.add_partitions(name, producer, known, BUMPING_VERSION, told.set_result)\n            code = (await told).error\n"),
          kind=Kind.ORDER, near=("tests/kafka/test_next_transactions.py",)),
    plant("the-metadata-falls-before-what-stands-on-it", AREA, "lowering the metadata writes records that no process can replay",
          (FEATURES, "{**levels, feature: level}", "{feature: level, **levels}"),
          kind=Kind.ORDER, near=LEVELS),
    plant("epochs-of-features-begin-anew", AREA, "clients keep the levels of before the metadata fell to its first level",
          (FEATURES, "max(context.image.features_epoch + 1, context.wall_ms())", "context.image.features_epoch + 1"),
          kind=Kind.EPOCH, near=LEVELS),
    plant("any-feature-clears-the-epoch", AREA, "lowering transactions to their first level takes the epoch of all levels back",
          ("controller/metadata/replay_config.py", "    if record.feature == METADATA:\n        image.features_epoch = 0\n", "    image.features_epoch = 0\n    if record.feature == METADATA:\n"),
          kind=Kind.CLEARED, near=LEVELS),
    plant("what-needs-the-metadata-keeps-transactions-up", AREA, "the level of transactions can not be lowered once there are ACLs, quotas or overrides",
          (FEATURES, "if feature == METADATA and command.is_lowering", "if command.is_lowering"),
          kind=Kind.GUARD, near=LEVELS),
    plant("features-stand-on-any-level", AREA, "a level is written that processes of the last release can not read",
          (FEATURES, "    if feature != METADATA and image.metadata_level < FEATURES_LEVEL:\n", "    if feature != METADATA and image.metadata_level < FIRST_LEVEL:\n"),
          kind=Kind.GUARD, near=LEVELS),
    plant("a-level-once-told-is-told-always", AREA, "clients are told levels of features below the metadata level that promises them",
          ("kafka/handlers/cluster/api_versions.py", "    if image.metadata_level >= FEATURES_LEVEL:\n", "    if image.metadata_level >= FEATURES_LEVEL - 1:\n"),
          kind=Kind.RANGE, near=TOLD),
    plant("search-leaves-the-deciding-marker-out", AREA, "a reader gets records of an aborted transaction",
          (INDEX, "min(decided + 1, count)", "min(decided, count)"),
          kind=Kind.RANGE, near=ABORTED),
    plant("search-ends-one-marker-early", AREA, "the next segment's aborted transactions are not looked at",
          (INDEX, "return Overlap(found, decided == count)", "return Overlap(found, decided > count)"),
          kind=Kind.RANGE, near=ABORTED),
    plant("highest-blocks-are-not-kept", AREA, "a search among very many markers passes over a long transaction",
          (LEAST, "        for level in self._levels:\n            at >>= FAN_OUT_BITS\n", "        for level in self._levels[:-1]:\n            at >>= FAN_OUT_BITS\n"),
          kind=Kind.RANGE, near=ABORTED),
    plant("the-last-block-is-cut", AREA, "the last one of a level is not descended into",
          (LEAST, "min((at + 1) << FAN_OUT_BITS, last + 1)", "min((at + 1) << FAN_OUT_BITS, max(last, first + 1))"),
          kind=Kind.RANGE, near=ABORTED),
    plant("blocks-forget-smaller-values", AREA, "the long transaction that ends within a block is not found",
          (LEAST, "            elif value < level[at]:\n                level[at] = value\n", "            elif value < level[at] and level is self._levels[0]:\n                level[at] = value\n"),
          kind=Kind.RANGE, near=ABORTED),
    plant("a-search-goes-on-into-what-is-newer", AREA, "a search off the loop uses entries that are being added",
          ("storage/read/aborted_search.py", "aborted.overlapping(start, end, count)", "aborted.overlapping(start, end)"),
          kind=Kind.ORDER, near=ABORTED),
    plant("rebuilt-segments-tell-all", AREA, "a segment whose index was rebuilt hides aborted transactions of later ones",
          (INDEX, "return stable_end >= end and (is_first or has_transactions)", "return stable_end >= end"),
          kind=Kind.GUARD, near=(*ABORTED, *REBUILT)),
    plant("a-rebuilt-index-knows-what-was-open", AREA, "a rebuilt index says that all below its end was decided",
          ("storage/index/rebuild.py", "            return UNKNOWN\n        return Offset", "            return self._end\n        return Offset"),
          kind=Kind.GUARD, near=REBUILT),
    plant("verified-here-while-the-decision-is-on-its-way", AREA, "a batch is refused for good that only came while its transaction was ending, though its client may go on",
          ("kafka/produce/transactional.py", "        if answer is None or ErrorCode.CONCURRENT_TRANSACTIONS in answer.codes.values():\n", "        if answer is None:\n"),
          kind=Kind.GUARD, near=HERE),
    plant("verified-here-guards-stay", AREA, "a late batch is let in by the guard of one whose append has failed",
          ("kafka/produce/transactional.py", "            if not is_appended:  # or a guard would let in whatever comes late\n                self.let_go()\n", "            pass\n"),
          kind=Kind.CLEARED, near=HERE),
    plant("verified-here-is-added", AREA, "a batch is in the log before its partition is in the transaction, and no marker comes to it",
          ("kafka/transactions/asking.py", "        if asked.adds or len(asked.partitions) > PARTITIONS_MAX:\n", "        if len(asked.partitions) > PARTITIONS_MAX:\n"),
          kind=Kind.GUARD, near=HERE),
    plant("an-end-before-the-wait-is-missed", AREA, "a request waits for an end that has been told already, until its client has to ask again",
          ("kafka/transactions/entering.py", "            code = await ask()\n            if code is not ErrorCode.CONCURRENT_TRANSACTIONS:\n                break\n            async", "            async"),
          kind=Kind.ORDER, near=ENTERING),
)  # fmt: skip
