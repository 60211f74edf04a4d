"""Names of properties that belong to RocketMQ, by what becomes of them in a record.

    HEADER_OF      those with a header of their own kind
    KEPT           those that go through a record as `rmq.` and their name
    NOT_KEPT       those that say how to send, or that a reader is told anew: never in a record

Source: RocketMQ 5.3.3 `MessageConst.STRING_HASH_SET`, which lists what applications may not set,
and `MessageConst.PROPERTY_TRANSIENT_PREFIX`.
"""

from typing import Final

PREFIX: Final = "rmq."
"""Headers of the front. No user property begins with it."""
TRANSIENT_PREFIX: Final = "__RMQ.TRANSIENT."

TAGS: Final = "TAGS"
KEYS: Final = "KEYS"
UNIQ_KEY: Final = "UNIQ_KEY"
GROUP: Final = "__SHARDINGKEY"
"""The message group of 5.x, whose messages are ordered."""
DELIVER_MS: Final = "TIMER_DELIVER_MS"
"""When a message of 5.x was to be delivered."""
KAFKA_NULL: Final = "KAFKA_NULL"
"""Ours: the record has a null value, which deletes its key in a compacted topic."""
LEFT_OUT: Final = "KAFKA_LEFT_OUT"
"""Ours: how many properties did not fit into the 32 KiB that a message may have."""

HEADER_OF: Final = {TAGS: "rmq.tag", KEYS: "rmq.keys", UNIQ_KEY: "rmq.id"}
"""The group is here or in the key (mapping.py)."""
GROUP_HEADER: Final = "rmq.group"
BORN_HOST_HEADER: Final = "rmq.bh"
"""Every message has one that came through this front, so it also marks these."""
FLAG_HEADER: Final = "rmq.flag"
TIMES_HEADER: Final = "rmq.times"
BORN_HEADER: Final = "rmq.born"
"""When a message was born, in ms, where its record has the time of its delivery."""
UNTIL_HEADER: Final = "rmq.until"
"""When a message is to be delivered that waits in more than one level; only of those that wait."""
DELAYED_HEADER: Final = "rmq.delayed"
"""Where a message is to go, and when (later/delayed.py); only of those that wait."""

NOT_KEPT: Final = frozenset(
    {
        "CLUSTER",
        "DELAY",
        "MAX_OFFSET",
        "MIN_OFFSET",
        "POP_CK",
        "POP_CK_OFFSET",
        "WAIT",
        KAFKA_NULL,
        LEFT_OUT,
    }
)
KEPT: Final = frozenset(
    """
    BORN_TIMESTAMP BUYER_ID CHECK_IMMUNITY_TIME_IN_SECONDS CONSUME_START_TIME CORRECTION_FLAG
    CORRELATION_ID DLQ_ORIGIN_MESSAGE_ID DLQ_ORIGIN_TOPIC DUP_INFO EXTEND_UNIQ_INFO
    INNER_BASE INNER_NUM INNER_MULTI_DISPATCH INNER_MULTI_QUEUE_OFFSET INSTANCE_ID
    MAX_RECONSUME_TIMES MQ2_FLAG MSG_REGION MSG_TYPE ORIGIN_MESSAGE_ID PGROUP PUSH_REPLY_TIME
    REAL_QID REAL_TOPIC RECONSUME_TIME REPLY_TO_CLIENT ARRIVE_TIME RETRY_TOPIC TIMER_DELAY_LEVEL
    TIMER_DELAY_MS TIMER_DELAY_SEC TIMER_DELIVER_MS TIMER_DEL_UNIQKEY TIMER_DEQUEUE_MS
    TIMER_ENQUEUE_MS TIMER_OUT_MS TIMER_ROLL_TIMES TRACE_CONTEXT TRACE_ON TRANSACTION_CHECK_TIMES
    TRANSFER_FLAG TRAN_MSG TRAN_PREPARED_QUEUE_OFFSET TTL 1ST_POP_TIME __BORNHOST __transactionId__
    """.split()  # noqa: SIM905  a list of names reads worse
)

assert not KEPT & NOT_KEPT
assert not (KEPT | NOT_KEPT) & {*HEADER_OF, GROUP}
