"""A topic that gives up its copies, and is deleted, as records that hypothesis draws."""

from hypothesis import strategies as st

from penstock.base.ids import BrokerId, ReplicaSetId, TopicId
from penstock.controller.metadata import records as r
from penstock.controller.metadata.image import ClusterImage
from penstock.controller.metadata.tier_records import CopiesGivenUp

_ID = TopicId(bytes(16))
A_TOPIC = (
    r.ReplicaSetCreated(replica_set_id=ReplicaSetId(1), replicas=(BrokerId(1),)),
    r.TopicCreated(name="t", topic_id=_ID, replica_set_ids=(ReplicaSetId(1),), internal=False),
)
of_give_ups = st.one_of(
    st.builds(CopiesGivenUp, topic_id=st.just(_ID), count=st.integers(1, 4)),
    st.just(r.TopicDeleted(topic_id=_ID)),
)


def may_follow(image: ClusterImage, record: r.MetadataRecord) -> bool:
    """Whether a command would have given this record, as far as it is one of these."""
    match record:
        case r.TopicDeleted(topic_id=topic_id):
            return topic_id in image.topics_by_id
        case CopiesGivenUp(topic_id=topic_id, count=count):
            known = image.configuration.give_ups.get(topic_id, 0)
            return topic_id in image.topics_by_id and count > known
        case _:
            return True
