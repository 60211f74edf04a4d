"""The internal topic of consumer groups.

Source: Kafka, Topic.GROUP_METADATA_TOPIC_NAME.
"""

INTERNAL_TOPIC = "__consumer_offsets"
