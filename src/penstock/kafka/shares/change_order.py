"""Which changes of shares count: the newest that was asked for, and none of a replaced coordinator.

    question ─► of a coordinator that was replaced? ─► refused
             └► the newest of its shares ─► waits until they can be used ─► still so? ─► changed
                                                                         └─► overtaken: refused

A change waits until the place of its share is there and loaded. Who has asked may be gone by then:
its time was over, its link was lost, or another broker coordinates the group, and has deleted it.
A share that began after that would be found by no deletion. A coordinator asks for its changes in
the order of their arrival, over one link; those of two coordinators are told apart by the leader
epochs of the group's partition, which are in the metadata, and in the questions that have come.

Source: KIP-932 (the state epoch of InitializeShareGroupState, which fences an earlier one); ours is
that of the coordinator, and is not kept: a master knows of each mastership that began before its
own by the metadata.
"""

from penstock.broker.broker import Broker
from penstock.coordinator.calls.shares import ShareChangeRequest
from penstock.coordinator.partitioning import partition_of
from penstock.groups.partitioning import INTERNAL_TOPIC
from penstock.kafka.gate import find_topic
from penstock.shares.state import ShareKey


class ChangeOrder:
    """The changes that one broker is asked for."""

    __slots__ = ("_broker", "_heard", "_newest")

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._heard: dict[int, int] = {}
        """The highest leader epoch that has asked, by partition of the groups' topic."""
        self._newest: dict[ShareKey, AskedChanges] = {}
        """What is worked on: each share's is in the question that came last."""

    def begin(self, question: ShareChangeRequest) -> "AskedChanges | None":
        """Take a question, in the turn in which it comes; None: its coordinator was replaced."""
        if self._is_replaced(question):
            return None
        asked = AskedChanges(self._newest)
        for change in question.changes:
            key = ShareKey(question.group, bytes(change.topic_id), change.partition)
            self._newest[key] = asked
            asked.keys.append(key)
        return asked

    def _is_replaced(self, question: ShareChangeRequest) -> bool:
        topic, epoch = find_topic(self._broker, INTERNAL_TOPIC), question.coordinator_epoch
        if topic is None or epoch < 0:
            return False  # an earlier release does not tell it
        number = partition_of(question.group, len(topic.partitions))
        found = self._broker.metadata.replica_sets.get(topic.partitions.set_ids[number])
        named = -1 if found is None else found.leader_epoch
        newest = max(named, self._heard.get(number, -1))
        if epoch < newest:
            return True
        self._heard[number] = epoch
        return False


class AskedChanges:
    """The changes of one question, until it is answered."""

    __slots__ = ("_newest", "keys")

    def __init__(self, newest: dict[ShareKey, "AskedChanges"]) -> None:
        self._newest = newest
        self.keys: list[ShareKey] = []

    def stand(self, key: ShareKey) -> bool:
        """Whether no later change of the share was asked for: to be asked as it is changed."""
        return self._newest.get(key) is self

    def end(self) -> None:
        """They are answered, or will not be."""
        for key in self.keys:
            if self._newest.get(key) is self:
                del self._newest[key]
