"""The defaults of topics change while a process runs: what topics come to is resolved anew.

`defaults` is no fact of the log but of the process (its settings, and what is set over them), so
this stands beside replay and not in it: replay resolves each topic that it touches by the defaults
that are there, and this goes over the others, a part at a time.

Source: Kafka `DynamicLogConfig.reconfigure`, which goes over all logs.
"""

from collections.abc import Iterable
from dataclasses import replace

from penstock.base.ids import TopicId
from penstock.controller.metadata.image import ClusterImage, TopicImage
from penstock.controller.topic_config.table import resolve


def resolve_again(image: ClusterImage, topic_ids: Iterable[TopicId]) -> list[TopicImage]:
    """Bring topics to the image's defaults; return those that have changed by it."""
    changed = []
    for topic_id in topic_ids:
        topic = image.topics_by_id.get(topic_id)
        if topic is None:  # deleted meanwhile
            continue
        settings = resolve(topic.configs, image.defaults)
        if settings != topic.settings:
            changed.append(replace(topic, settings=settings))
            image.topics_by_id[topic_id] = image.topics_by_name[topic.name] = changed[-1]
    return changed
