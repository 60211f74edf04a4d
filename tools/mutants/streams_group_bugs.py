"""Planted bugs of streams groups: tasks, topologies, and the topics that are created for them."""

# ruff: noqa: E501  the text of the source, as it stands there

from .mutant import Kind, plant

MEMBERS = ("tests/groups/streams/test_members.py",)
MACHINE = (*MEMBERS, "tests/groups/streams/test_machine.py")
ASSIGNOR = ("tests/groups/streams/test_assignor.py", *MEMBERS)
TARGETS = ("tests/groups/streams/test_targets.py",)
RECORDS = ("tests/groups/streams/test_records.py",)
LIVE = ("tests/kafka/test_streams_groups.py",)

MUTANTS = (
    plant(
        "active-task-in-two-members",
        "Groups",
        "a task is processed by two members at a time",
        (
            "groups/streams/draft.py",
            "                    if other != member_id and (is_exclusive or self._process_of(other) == own):\n",
            "                    if other != member_id and self._process_of(other) == own:\n",
        ),
        kind=Kind.GUARD,
        near=MEMBERS,
    ),
    plant(
        "task-to-be-given-up-is-free",
        "Groups",
        "a member gets a task while the one before still works on it",
        (
            "groups/streams/holders.py",
            "        yield from current.revoking.items()\n",
            "",
        ),
        kind=Kind.CLEARED,
        near=MACHINE,
    ),
    plant(
        "copy-beside-its-task",
        "Groups",
        "a process has a task twice, in one directory",
        (
            "groups/streams/draft.py",
            "(is_exclusive or self._process_of(other) == own)",
            "is_exclusive",
        ),
        kind=Kind.GUARD,
        near=MACHINE,
    ),
    plant(
        "standby-where-it-is-active",
        "Groups",
        "a copy of the state is kept where the state is",
        (
            "groups/streams/assignor.py",
            "            elif process_id in shares.places[task]:\n",
            "            elif False:\n",
        ),
        kind=Kind.GUARD,
        near=ASSIGNOR,
    ),
    plant(
        "tasks-are-not-sticky",
        "Groups",
        "every assignment moves state about",
        (
            "groups/streams/assignor.py",
            "lambda task: [before.active.get(task)]",
            "lambda task: [None]",
        ),
        kind=Kind.STALE,
        near=ASSIGNOR,
    ),
    plant(
        "copies-do-not-take-over",
        "Groups",
        "a task whose member is gone is restored from nothing while a copy is there",
        (
            "groups/streams/assignor.py",
            "lambda task: _near(shares, before.standby.get(task, ()))",
            "lambda task: ()",
        ),
        kind=Kind.STALE,
        near=ASSIGNOR,
    ),
    plant(
        "changelogs-of-one-partition",
        "Groups",
        "a changelog has fewer partitions than there are tasks",
        (
            "groups/streams/configured.py",
            "            _with_partitions(topic, task_count)\n",
            "            _with_partitions(topic, 1)\n",
        ),
        kind=Kind.RANGE,
        near=MEMBERS,
    ),
    plant(
        "copartition-groups-are-not-checked",
        "Groups",
        "records of one key are joined in different tasks",
        ("groups/streams/configured.py", "    if len(wanted) > 1:\n", "    if len(wanted) > 9:\n"),
        kind=Kind.GUARD,
        near=MEMBERS,
    ),
    plant(
        "tasks-before-their-topics",
        "Groups",
        "tasks are given while topics of theirs are missing",
        (
            "groups/streams/retarget.py",
            "    if configured is not None and configured.is_ready and members:\n",
            "    if configured is not None and members:\n",
        ),
        kind=Kind.GUARD,
        near=MEMBERS,
    ),
    plant(
        "keys-of-a-streams-group-do-not-count",
        "Groups",
        "a group that is told to keep copies goes on without",
        (
            "groups/streams/retarget.py",
            "    is_ruled = group.tables.streams_said.configs != rules.pairs\n",
            "    is_ruled = False\n",
        ),
        kind=Kind.GUARD,
        near=MEMBERS,
    ),
    plant(
        "running-topology-is-replaced",
        "Groups",
        "one member with another program changes the tasks of all",
        (
            "groups/streams/checks.py",
            '    if not draft.member_count:\n        return None\n    return refused(ErrorCode.INVALID_REQUEST, "Topology',
            '    return None\n    return refused(ErrorCode.INVALID_REQUEST, "Topology',
        ),
        kind=Kind.GUARD,
        near=MEMBERS,
    ),
    plant(
        "wish-to-end-outlives-its-members",
        "Groups",
        "an application that was shut down can never be started again",
        (
            "groups/streams/group.py",
            "        if not self.tables.facts:\n            self.shutdown_by = None\n",
            "",
        ),
        kind=Kind.CLEARED,
        near=MEMBERS,
    ),
    plant(
        "first-members-wait-in-the-first-epoch",
        "Groups",
        "members that have waited for the first assignment never get it",
        (
            "groups/streams/retarget.py",
            "FIRST_EPOCH = MemberEpoch(2)\n",
            "FIRST_EPOCH = MemberEpoch(1)\n",
        ),
        kind=Kind.RANGE,
        near=(*TARGETS, *MEMBERS),
    ),
    plant(
        "endpoints-are-told-once",
        "Groups",
        "who asks for state is sent to where it was",
        (
            "groups/streams/group.py",
            "        self._state = None\n        endpoints_changed(self)\n",
            "        self._state = None\n",
        ),
        kind=Kind.CLEARED,
        near=MEMBERS,
    ),
    plant(
        "member-state-without-its-offset",
        "Groups",
        "another coordinator takes a member that has all for one that has to give up",
        ("groups/streams/records.py", "FIRST_STATE = 1\n", "FIRST_STATE = 0\n"),
        kind=Kind.SNAPSHOT,
        near=RECORDS,
    ),
    plant(
        "streams-group-loaded-as-another",
        "Groups",
        "after a failover the members of a streams group are unknown",
        (
            "groups/loading.py",
            "    return StreamsGroup if is_of_streams_group(key) else ConsumerGroup\n",
            "    return ConsumerGroup\n",
        ),
        kind=Kind.SNAPSHOT,
        near=MEMBERS,
    ),
    plant(
        "topics-without-permission",
        "Groups",
        "a client has topics created that it may not create",
        (
            "kafka/handlers/groups/streams_group_heartbeat.py",
            "    if barred:\n",
            "    if False:\n",
        ),
        kind=Kind.GUARD,
        near=LIVE,
    ),
    plant(
        "delay-is-looked-at-twice",
        "Groups",
        "a first assignment whose delay ends in between leaves members without tasks",
        (
            "groups/streams/heartbeats.py",
            "        if draft.target_epoch < draft.epoch:\n",
            "        if draft.target_epoch < draft.epoch and is_delayed(group, self._context.clock):\n",
        ),
        kind=Kind.STALE,
        near=TARGETS,
    ),
    plant(
        "waiting-for-members-takes-tasks-away",
        "Groups",
        "members on their way to a target lose what they have while the next one waits",
        (
            "groups/streams/heartbeats.py",
            "            epoch = max(WAITING_EPOCH, draft.target_epoch)\n",
            "            epoch, tasks = max(WAITING_EPOCH, draft.target_epoch), {}\n",
        ),
        kind=Kind.CLEARED,
        near=TARGETS,
    ),
    plant(
        "strangers-end-the-application",
        "Groups",
        "a member that a full group refuses has all others shut down",
        (
            "groups/streams/heartbeats.py",
            "        if request.is_shutdown and not is_new:\n",
            "        if request.is_shutdown:\n",
        ),
        kind=Kind.ORDER,
        near=MEMBERS,
    ),
    plant(
        "topics-of-tasks-compared-when-they-were-not",
        "Groups",
        "a source topic that grows while it is looked at never gets further tasks",
        (
            "groups/streams/retarget.py",
            "        version = cluster.version\n        hashed = yield from _configure(group, topology, cluster, clock, rules)\n",
            "        hashed = yield from _configure(group, topology, cluster, clock, rules)\n        version = cluster.version\n",
        ),
        kind=Kind.STALE,
        near=TARGETS,
    ),
    plant(
        "topics-of-consumers-compared-when-they-were-not",
        "Groups",
        "a topic that grows while it is looked at has partitions that nobody reads",
        (
            "groups/consumer/retarget.py",
            "        group.topics_version = version  # else it is",
            "        group.topics_version = cluster.version  # else it is",
        ),
        kind=Kind.STALE,
        near=("tests/groups/consumer/test_members.py",),
    ),
    plant(
        "topics-of-shares-compared-when-they-were-not",
        "Groups",
        "the same in a share group",
        (
            "groups/share/retarget.py",
            "    group.topics_version, group.topics_checked_ms = version, clock.monotonic_ms()\n",
            "    group.topics_version, group.topics_checked_ms = cluster.version, clock.monotonic_ms()\n",
        ),
        kind=Kind.STALE,
        near=("tests/groups/share/test_members.py",),
    ),
    plant(
        "end-of-a-change-of-shares-is-not-heard",
        "Groups",
        "who joins while an administrator's change is late waits until another heartbeat comes",
        (
            "groups/assigned/batches.py",
            "        group.records.on_settled = partial(self._on_settled, group)\n        if group.is_changing or not group.queue or group.is_dead:\n            return\n",
            "        if group.is_changing or not group.queue or group.is_dead:\n            return\n        group.records.on_settled = partial(self._on_settled, group)\n",
        ),
        kind=Kind.ORDER,
        near=("tests/groups/share/test_kinds.py",),
    ),
)
