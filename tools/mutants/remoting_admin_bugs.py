"""Bugs of what the front for RocketMQ's remoting clients answers to those who operate a cluster."""

from .mutant import Kind, plant

AREA = "Remoting"
READING = ("tests/remoting/test_admin.py",)
CHANGES = ("tests/remoting/test_admin_changes.py",)
HANDLERS = ("tests/remoting/test_handlers.py",)

MUTANTS = (
    plant(
        "remoting-pulls-begin-at-the-position",
        AREA,
        "a pull that tells a position is read from there: what is under way comes again",
        (
            "remoting/handlers/pull.py",
            "        commit(context.front.desk, group, found.hosted, position, _nothing)\n",
            "        commit(context.front.desk, group, found.hosted, position, _nothing)\n"
            "        offset = position\n",
        ),
        kind=Kind.RANGE,
        near=HANDLERS,
    ),
    plant(
        "remoting-members-undo-their-reset",
        AREA,
        "a member that has not heard of a reset commits what it had before",
        (
            "remoting/handlers/offsets.py",
            "            if context.front.resets.is_marked(group, found.hosted):\n",
            "            if context.front.resets.count < 0:\n",
        ),
        kind=Kind.GUARD,
        near=CHANGES,
    ),
    plant(
        "remoting-pulls-undo-a-reset",
        AREA,
        "the pull that hears of a reset keeps the position that it tells",
        (
            "remoting/handlers/pull.py",
            "    if moved is not None:\n",
            "    if moved is not None:\n"
            '        before = number(command, "commitOffset", 0)\n'
            "        commit(context.front.desk, group, found.hosted, before, _nothing)\n",
        ),
        kind=Kind.STALE,
        near=CHANGES,
    ),
    plant(
        "remoting-resets-of-earlier-masterships",
        AREA,
        "a consumer is sent back by a reset of long ago, when its broker leads the queue again",
        (
            "remoting/operating/resets.py",
            "mark.offset if mark.leader_epoch == hosted.member.leader_epoch else None\n",
            "mark.offset\n",
        ),
        kind=Kind.STALE,
        near=CHANGES,
    ),
    plant(
        "remoting-resets-without-members-are-marked",
        AREA,
        "the first consumer of a group that was reset is sent back once more",
        (
            "remoting/handlers/admin/reset.py",
            "    if has_members:  # before",
            "    if has_members or True:  # before",
        ),
        kind=Kind.GUARD,
        near=CHANGES,
    ),
    plant(
        "remoting-internal-topics-are-listed",
        AREA,
        "tools are told of topics that they can not route to",
        (
            "remoting/handlers/admin/topics.py",
            "        if stored not in INTERNAL_TOPICS and may_see(context, name):\n",
            "        if may_see(context, name):\n",
        ),
        kind=Kind.GUARD,
        near=READING,
    ),
    plant(
        "remoting-positions-are-skipped-between-pages",
        AREA,
        "the first queue of a page of a group's positions is told without one",
        (
            "remoting/handlers/admin/group_positions.py",
            "after_partition=last.partition\n",
            "after_partition=last.partition + 1\n",
        ),
        kind=Kind.RANGE,
        near=READING,
    ),
    plant(
        "remoting-views-another-topic-s-message",
        AREA,
        "a message of the topic is shown for one of a retry topic",
        (
            "remoting/handlers/admin/view.py",
            "    if place.is_retry != is_retry:\n",
            "    if is_retry and not place.is_retry:\n",
        ),
        kind=Kind.GUARD,
        near=READING,
    ),
    plant(
        "remoting-secrets-are-told",
        AREA,
        "settings that are secret are told to who may read settings",
        (
            "remoting/handlers/admin/brokers.py",
            "if entry.value is not None and not entry.is_sensitive:",
            "if entry.value is not None:",
        ),
        kind=Kind.GUARD,
        near=READING,
    ),
    plant(
        "remoting-topics-grow-by-what-is-asked",
        AREA,
        "each change of a topic adds as many queues as it is to have",
        (
            "remoting/handlers/admin/change_topics.py",
            "* (asked.queues - present)",
            "* asked.queues",
        ),
        kind=Kind.RANGE,
        near=CHANGES,
    ),
    plant(
        "remoting-groups-are-deleted-under-their-members",
        AREA,
        "positions of a group are deleted while it consumes",
        (
            "remoting/handlers/admin/change_groups.py",
            "    if context.front.members.client_ids(group):\n",
            "    if not group:\n",
        ),
        kind=Kind.GUARD,
        near=CHANGES,
    ),
    plant(
        "remoting-long-answers-keep-their-place",
        AREA,
        "an answer that is refused takes a place of long answers away for ever",
        (
            "remoting/handlers/admin/long_answers.py",
            "        if len(body) > BYTES_MAX:\n",
            "        if len(body) > BYTES_MAX:\n            await _turn(context)\n",
        ),
        kind=Kind.GUARD,
        near=READING,
    ),
)
