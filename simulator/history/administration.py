"""Records administration requests and their outcomes, for the linearizability check.

Usable with any client, in a simulation or with a real cluster: report each request when it is sent,
and its error code when the answer comes. Two rules for a client:

- It does not retry by itself: the second attempt may see the first one's effect, so that its answer
  would not be conclusive. Leave such an operation without an answer instead.
- Brokers answer reads from their own copy: `stale_ns_max` says how old that may be.

Source: error codes of CreateTopics, DeleteTopics, IncrementalAlterConfigs (KIP-4, KIP-339).
"""

from collections.abc import Mapping

from penstock.protocol.error_codes import ErrorCode
from simulator.history.controllers import (
    AlterConfig,
    Answer,
    CreateTopic,
    DeleteTopic,
    ReadConfig,
    ReadTopic,
    TopicSeen,
)
from simulator.history.linearizability import Recorder

_ANSWERS: Mapping[int, Answer] = {
    ErrorCode.NONE: Answer.OK,
    ErrorCode.TOPIC_ALREADY_EXISTS: Answer.EXISTS,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: Answer.MISSING,
}
_NEVER_DONE = frozenset(
    {
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.INVALID_PARTITIONS,
        ErrorCode.INVALID_REPLICATION_FACTOR,
        ErrorCode.INVALID_CONFIG,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.POLICY_VIOLATION,
        ErrorCode.UNSUPPORTED_VERSION,
    }
)
"""The request was looked at and refused. What is in neither list leaves it open what happened."""

TopicCall = CreateTopic | DeleteTopic | AlterConfig | ReadTopic | ReadConfig


class AdminHistory:
    """What one client asks about topics; clients share the recorder."""

    def __init__(self, recorder: Recorder, client: str, *, stale_ns_max: int = 0) -> None:
        self._recorder = recorder
        self._client = client
        self._stale_ns_max = stale_ns_max

    def began(self, topic: str, call: TopicCall) -> int:
        """Note a request that is about to be sent; returns the number of the operation."""
        return self._recorder.began(self._client, ("topic", topic), call)

    def changed(self, number: int, error_code: int) -> None:
        """Note the answer to a creation, a deletion or a changed setting."""
        answer = _ANSWERS.get(error_code)
        if answer is not None:
            self._recorder.answered(number, answer)
        elif error_code in _NEVER_DONE:
            self._recorder.refused(number)

    def read(self, number: int, error_code: int, found: TopicSeen | str | None = None) -> None:
        """Note the answer to a read: what was found, when the error code says that it was."""
        answer = _ANSWERS.get(error_code)
        result = found if answer is Answer.OK else answer
        if answer is None:
            self._recorder.refused(number)
        else:
            self._recorder.answered(number, result, stale_ns_max=self._stale_ns_max)
