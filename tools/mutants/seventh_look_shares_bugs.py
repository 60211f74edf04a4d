"""Planted bugs of a group's coordinator and a master that are apart, and of what later releases say.

Most of them were in the source.
"""

# ruff: noqa: E501  the text of the source, as it stands there

from .mutant import Kind, plant

ORDER = ("tests/kafka/test_share_change_order.py",)
MASTERS = ("tests/kafka/test_share_masters.py",)
ADMISSIONS = ("tests/kafka/test_share_admissions.py",)
TURNS = ("tests/kafka/test_turns_of_share_fetches.py",)
AREA = "Shares"
CHANGES, ANSWERING = "kafka/shares/change_order.py", "kafka/shares/answering.py"
ASKING, FETCHING = "kafka/shares/masters.py", "kafka/shares/fetching.py"

MUTANTS = (
    plant(
        "share-replaced-coordinator-is-heard",
        AREA,
        "a reset of a coordinator that was replaced begins a share that no deletion finds",
        (CHANGES, "        if self._is_replaced(question):\n            return None\n", ""),
        kind=Kind.EPOCH,
        near=ORDER,
    ),
    plant(
        "share-coordinator-known-by-hearsay-alone",
        AREA,
        "a master that has not heard of the new coordinator heeds the old one, whatever its metadata says",
        (CHANGES, "max(named, self._heard.get(number, -1))", "self._heard.get(number, -1)"),
        kind=Kind.STALE,
        near=ORDER,
    ),
    plant(
        "share-coordinator-known-by-metadata-alone",
        AREA,
        "a master whose metadata is old heeds the coordinator before the one that has asked",
        (CHANGES, "max(named, self._heard.get(number, -1))", "named"),
        kind=Kind.STALE,
        near=ORDER,
    ),
    plant(
        "share-reset-after-its-deletion",
        AREA,
        "a reset that waited while the share was deleted begins it anew",
        (
            ANSWERING,
            "if not asked.stand(key) or hosted.member.leader_epoch != leader_epoch:",
            "if hosted.member.leader_epoch != leader_epoch:",
        ),
        kind=Kind.STALE,
        near=ORDER,
    ),
    plant(
        "share-reset-of-another-mastership",
        AREA,
        "a reset begins a share that another master was asked to delete meanwhile",
        (
            ANSWERING,
            "if not asked.stand(key) or hosted.member.leader_epoch != leader_epoch:",
            "if not asked.stand(key):",
        ),
        kind=Kind.EPOCH,
        near=ORDER,
    ),
    plant(
        "share-deletion-after-a-reset",
        AREA,
        "a deletion that waited deletes a share that was put elsewhere since",
        (
            ANSWERING,
            "        if not asked.stand(key):\n            return ErrorCode.COORDINATOR_NOT_AVAILABLE\n        if why is None:\n",
            "        if why is None:\n",
        ),
        kind=Kind.STALE,
        near=ORDER,
    ),
    plant(
        "share-order-forgotten-with-the-newest",
        AREA,
        "once the newest change is answered the one before it counts again",
        (
            CHANGES,
            "return self._newest.get(key) is self",
            "return self._newest.get(key, self) is self",
        ),
        kind=Kind.CLEARED,
        near=ORDER,
    ),
    plant(
        "share-order-is-kept",
        AREA,
        "changes that were answered stay in memory",
        (CHANGES, "                del self._newest[key]\n", "                pass\n"),
        kind=Kind.CLEARED,
        near=ORDER,
    ),
    plant(
        "share-code-of-a-later-release-stops-the-node",
        AREA,
        "an unknown code leaves a group Dead and stops its coordinator",
        (ASKING, "[*map(known_code, answer.codes)]", "[*map(ErrorCode, answer.codes)]"),
        kind=Kind.GUARD,
        near=MASTERS,
    ),
    plant(
        "share-code-of-a-later-release-is-success",
        AREA,
        "shares that may be left are forgotten with their group",
        (
            "protocol/error_codes.py",
            "        return ErrorCode.UNKNOWN_SERVER_ERROR\n",
            "        return ErrorCode.NONE\n",
        ),
        kind=Kind.GUARD,
        near=MASTERS,
    ),
    plant(
        "share-deletion-ends-in-silence",
        AREA,
        "a group stays Dead after a mistake of ours",
        (
            ASKING,
            "        finally:\n            done(error)  # whatever happens: the group is Dead until then\n",
            "            done(error)\n        finally:\n            pass\n",
        ),
        kind=Kind.GUARD,
        near=MASTERS,
    ),
    plant(
        "share-refused-fetch-sleeps-on",
        AREA,
        "a member that was early waits for its whole time, though its group knows of it by then",
        (FETCHING, "        if not self._is_refused:\n", "        if True:\n"),
        kind=Kind.GUARD,
        near=ADMISSIONS,
    ),
    plant(
        "share-fetch-leaves-in-one-turn",
        AREA,
        "the end of a fetch of 2,000 partitions holds the loop",
        (
            FETCHING,
            "                await self._pace.step()\n                self._leave_one(left.pop())",
            "                self._leave_one(left.pop())",
        ),
        kind=Kind.GUARD,
        near=TURNS,
    ),
)
