"""Planted bugs of what hosts shares: their place, sessions, share fetches, calls (ADR 0096)."""

# ruff: noqa: E501  the text of the source, as it stands there

from .mutant import Kind, plant

FETCH = ("tests/kafka/test_share_fetch.py",)
SESSIONS = ("tests/kafka/test_share_sessions.py",)
TABLE = ("tests/kafka/test_share_session_table.py",)
WAITS = ("tests/kafka/test_share_waits.py",)
CALLS = ("tests/kafka/test_share_calls.py",)
PLACED = ("tests/controller/test_place_internal.py",)
ADMISSIONS = ("tests/kafka/test_share_admissions.py",)
BATCHES = ("tests/kafka/test_share_batches.py",)
AREA = "Shares"
FETCHING, BATCH = "kafka/shares/fetching.py", "kafka/shares/batches.py"
SESSION, ANSWERING = "kafka/shares/sessions.py", "kafka/shares/answering.py"
ACKS, COORDINATOR = "kafka/shares/acknowledging.py", "shares/coordinator.py"

MUTANTS = (
    plant(
        "share-place-is-made-twice",
        AREA,
        "a set has two partitions of share states, and each master another one",
        (
            "controller/commands/place_internal.py",
            "    if set_id in set_ids:\n        return Result(set_ids.index(set_id), ())\n",
            "",
        ),
        kind=Kind.GUARD,
        near=PLACED,
    ),
    plant(
        "share-place-is-a-users-topic",
        AREA,
        "states of shares are written among the records of clients",
        (
            "controller/commands/place_internal.py",
            "    if topic is not None and is_internal and not topic.internal:\n"
            "        raise TopicExists(name)\n",
            "",
        ),
        kind=Kind.GUARD,
        near=PLACED,
    ),
    plant(
        "share-place-of-another-set",
        AREA,
        "a share is kept by another master than that of its data",
        (
            "broker/coordinators/share_places.py",
            "{set_id: number for number, set_id in enumerate(set_ids)}",
            "{set_id: 0 for set_id in set_ids}",
        ),
        kind=Kind.RANGE,
        near=("tests/kafka/test_share_places.py",),
    ),
    plant(
        "share-topic-does-not-grow",
        AREA,
        "the second set with shares stops the node",
        (COORDINATOR, "            grows=True,\n", "            grows=False,\n"),
        kind=Kind.GUARD,
        near=("tests/kafka/test_share_places.py",),
    ),
    plant(
        "share-outlives-its-topic",
        AREA,
        "shares of deleted topics are kept for ever",
        (
            "broker/broker.py",
            "        if delta.deleted_topics:\n            self._forget_shares()\n",
            "",
        ),
        kind=Kind.CLEARED,
        near=SESSIONS,
    ),
    plant(
        "share-hands-out-what-was-not-read",
        AREA,
        "a record that came back meanwhile is held by a member that does not get it",
        (
            FETCHING,
            "        if outlook.next_offset < read.wanted.fetch_offset:\n            return True  # something that was not read came back\n",
            "",
        ),
        kind=Kind.STALE,
        near=WAITS,
    ),
    plant(
        "share-fetch-looks-before-it-watches",
        AREA,
        "a record that comes in between wakes nobody",
        (
            FETCHING,
            "                await self._watch()\n                is_last",
            "                is_last",
        ),
        kind=Kind.ORDER,
        near=WAITS,
    ),
    plant(
        "share-fetch-of-the-past-waits-on",
        AREA,
        "an older fetch of a session takes the records of the newer one",
        (FETCHING, "session.is_over or not is_last or", "session.is_over or"),
        kind=Kind.STALE,
        near=WAITS,
    ),
    plant(
        "share-minimum-of-bytes-is-not-waited-for",
        AREA,
        "members are answered with every record",
        (
            FETCHING,
            "if not is_last and size < self._limits.min_bytes and",
            "if not is_last and size < 0 and",
        ),
        kind=Kind.RANGE,
        near=WAITS,
    ),
    plant(
        "share-count-is-never-strict",
        AREA,
        "a member gets more records than it asked for at most",
        (
            FETCHING,
            "ends = () if self._limits.is_strict else found.batch_ends",
            "ends = found.batch_ends",
        ),
        kind=Kind.GUARD,
        near=FETCH,
    ),
    plant(
        "share-does-not-follow-the-start-of-its-log",
        AREA,
        "records that retention took block the share",
        (
            FETCHING,
            "if log_start is not None and outlook.start_offset < log_start:\n",
            "if False:\n",
        ),
        kind=Kind.GUARD,
        near=FETCH,
    ),
    plant(
        "share-markers-are-records",
        AREA,
        "members get offsets that no record has",
        (BATCH, "            if is_control or is_aborted:\n", "            if is_aborted:\n"),
        kind=Kind.GUARD,
        near=WAITS,
    ),
    plant(
        "share-aborted-records-are-handed-out",
        AREA,
        "who reads committed records only gets those of aborted transactions",
        (BATCH, "            if is_control or is_aborted:\n", "            if is_control:\n"),
        kind=Kind.GUARD,
        near=WAITS,
    ),
    plant(
        "share-aborted-for-ever",
        AREA,
        "what a producer commits after an abort is skipped",
        (BATCH, "            self._open.discard(producer_id)\n", "            pass\n"),
        kind=Kind.CLEARED,
        near=BATCHES,
    ),
    plant(
        "share-holes-are-records",
        AREA,
        "offsets that were never written are handed out",
        (BATCH, "            if begin > end:\n                absent.append((end, begin))\n", ""),
        kind=Kind.GUARD,
        near=BATCHES,
    ),
    plant(
        "share-sends-a-batch-too-few",
        AREA,
        "a member holds records that the answer does not have",
        (
            BATCH,
            "        if at < len(runs) and runs[at][0] < batch.end:\n",
            "        if at < len(runs) and runs[at][0] <= batch.first:\n",
        ),
        kind=Kind.RANGE,
        near=BATCHES,
    ),
    plant(
        "share-epoch-stands-still",
        AREA,
        "a request that was sent twice is done twice",
        (SESSION, "            session.next_epoch = following(epoch)\n", ""),
        kind=Kind.EPOCH,
        near=SESSIONS,
    ),
    plant(
        "share-session-outlives-its-connection",
        AREA,
        "what a dead member held waits for its lock",
        (
            SESSION,
            "one.client.is_closed]:\n            self.end(session.group, session.member)\n            self._ended(session)\n",
            "one.client.is_closed]:\n            self.end(session.group, session.member)\n",
        ),
        kind=Kind.CLEARED,
        near=SESSIONS,
    ),
    plant(
        "share-session-forgets-what-it-holds",
        AREA,
        "records of a partition that was forgotten wait for their lock",
        (SESSION, "        self.held.add(place)\n", ""),
        kind=Kind.GUARD,
        near=SESSIONS,
    ),
    plant(
        "share-close-frees-nothing",
        AREA,
        "what a member that closes holds waits for its lock",
        (
            "kafka/front.py",
            "            await self._free(session)\n",
            "            pass\n",
        ),
        kind=Kind.GUARD,
        near=SESSIONS,
    ),
    plant(
        "share-acknowledges-what-it-does-not-hold",
        AREA,
        "a member hears that records are accepted which others have",
        (
            ACKS,
            "            if Verdict.LAPSED in answer.verdicts:\n                worst = ErrorCode.INVALID_RECORD_STATE\n",
            "",
        ),
        kind=Kind.GUARD,
        near=FETCH,
    ),
    plant(
        "share-types-go-to-wrong-offsets",
        AREA,
        "a record is accepted that was released",
        (
            ACKS,
            "            yield types[begin], first + begin, first + at\n",
            "            yield types[begin], first + begin, end\n",
        ),
        kind=Kind.RANGE,
        near=FETCH,
    ),
    plant(
        "share-acknowledges-without-end",
        AREA,
        "a range of a request holds the loop",
        (
            ACKS,
            "        if total > CLAIM_MAX:\n            return ErrorCode.INVALID_RECORD_STATE\n",
            "",
        ),
        kind=Kind.GUARD,
        near=FETCH,
    ),
    plant(
        "share-begins-for-strangers",
        AREA,
        "shares that no group knows of fill the memory for shares",
        (
            "kafka/shares/admissions.py",
            "                said.code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION\n",
            "                said.code = ErrorCode.NONE\n",
        ),
        kind=Kind.GUARD,
        near=ADMISSIONS,
    ),
    plant(
        "share-begins-after-its-deletion",
        AREA,
        "a group that is deleted leaves a share that nothing deletes",
        (ANSWERING, "        self._admissions.void(key)\n", ""),
        kind=Kind.STALE,
        near=ADMISSIONS,
    ),
    plant(
        "share-may-begin-in-every-mastership",
        AREA,
        "a share begins that another master was told to delete",
        (
            "kafka/shares/admissions.py",
            "if said is None or said.leader_epoch != leader_epoch or said.code is not ErrorCode.NONE:",
            "if said is None or said.code is not ErrorCode.NONE:",
        ),
        kind=Kind.EPOCH,
        near=ADMISSIONS,
    ),
    plant(
        "share-begins-while-its-group-is-deleted",
        AREA,
        "a group that is deleted leaves a share that nothing deletes",
        (
            "groups/share/membership.py",
            "        if isinstance(group, ShareGroup) and (group.is_dead or group.is_held):\n",
            "        if isinstance(group, ShareGroup) and group.is_held:\n",
        ),
        kind=Kind.GUARD,
        near=("tests/groups/share/test_kinds.py",),
    ),
    plant(
        "share-reset-of-the-unknown-fails",
        AREA,
        "offsets of a partition that was never read can not be set",
        (
            ANSWERING,
            "is_reset = kind is ShareChangeKind.RESET and why is None",
            "is_reset = kind is ShareChangeKind.RESET",
        ),
        kind=Kind.GUARD,
        near=CALLS,
    ),
    plant(
        "share-leaves-one-partition",
        AREA,
        "a member that left still holds records elsewhere",
        (
            ANSWERING,
            "            if key.group == group:\n                keys.append(key)\n",
            "            if key.group == group and not keys:\n                keys.append(key)\n",
        ),
        kind=Kind.GUARD,
        near=CALLS,
    ),
    plant(
        "share-partitions-of-a-replaced-session-count",
        AREA,
        "requests of sessions that were replaced use up the bound of all sessions",
        (
            SESSION,
            "        if session.is_over:\n            return ErrorCode.SHARE_SESSION_NOT_FOUND\n",
            "",
        ),
        kind=Kind.STALE,
        near=TABLE,
    ),
    plant(
        "share-close-ends-the-next-session",
        AREA,
        "a member that has begun anew loses its session to a request of the one before",
        (
            SESSION,
            "        if session.is_over:\n            return False\n",
            "",
        ),
        kind=Kind.STALE,
        near=TABLE,
    ),
    plant(
        "share-partitions-that-are-added-do-not-count",
        AREA,
        "sessions take more memory than their bound",
        (
            SESSION,
            "            before = len(here)\n            here.update(more)\n",
            "            here.update(more)\n            before = len(here)\n",
        ),
        kind=Kind.RANGE,
        near=TABLE,
    ),
    plant(
        "share-session-stays-with-its-first-connection",
        AREA,
        "a member that has gone over to another connection loses its session with the first one",
        (
            SESSION,
            "        session.client = client\n        return session\n",
            "        return session\n",
        ),
        kind=Kind.STALE,
        near=TABLE,
    ),
    plant(
        "share-member-leaves-again-and-again",
        AREA,
        "masters are told of a member that has gone with each batch that has nothing to write",
        (
            "groups/assigned/batches.py",
            "        group.leaving = ()\n",
            "",
        ),
        kind=Kind.CLEARED,
        near=("tests/groups/share/test_members.py",),
    ),
)
