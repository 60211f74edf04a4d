"""The internal topic of transactions.

Source: Kafka, Topic.TRANSACTION_STATE_TOPIC_NAME.
"""

INTERNAL_TOPIC = "__transaction_state"
