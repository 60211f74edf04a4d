"""The record of a topic that gave up what the object store has of it.

Source: docs/adr/0192; KIP-950 (`remote.log.delete.on.disable`), where a topic has one
`tieredEpoch` for this.
"""

from dataclasses import dataclass
from typing import ClassVar

from penstock.base.ids import TopicId
from penstock.controller.metadata.kinds import RecordKind
from penstock.controller.metadata.levels import GIVE_UPS_LEVEL


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiesGivenUp:
    """Nothing that was copied of the topic before counts any more.

    `count` says how often that was so: what is copied from now on is of this generation.
    """

    KIND: ClassVar = RecordKind.COPIES_GIVEN_UP
    LEVEL: ClassVar = GIVE_UPS_LEVEL
    topic_id: TopicId
    count: int
