"""The input and the result of every command handler.

Source: Kafka ControllerResult (response and records in one). It has no behaviour.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from penstock.base.ids import TopicId
from penstock.controller.config import ControllerConfig
from penstock.controller.metadata.image import ClusterImage
from penstock.controller.metadata.records import MetadataRecord

R_co = TypeVar("R_co", covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandContext:
    """`image` is read only here; `new_topic_id` returns 16 random bytes, `wall_ms` wall time."""

    config: ControllerConfig
    image: ClusterImage
    new_topic_id: Callable[[], TopicId]
    wall_ms: Callable[[], int]


@dataclass(frozen=True, slots=True)
class Result(Generic[R_co]):
    """`response` is valid once `records`, if any, are committed and replayed."""

    response: R_co
    records: tuple[MetadataRecord, ...] = ()
