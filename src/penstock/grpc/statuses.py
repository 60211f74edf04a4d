"""Statuses of gRPC, and codes and kinds of RocketMQ's service that this front uses.

Source: gRPC's status codes; apache.rocketmq.v2 `Code`, `ClientType`, `MessageType`, `Encoding`,
`Permission`, `AddressScheme`.
"""

from enum import IntEnum


class GrpcStatus(IntEnum):
    """How a call ends."""

    OK = 0
    CANCELLED = 1
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    RESOURCE_EXHAUSTED = 8
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14


class Code(IntEnum):
    """What an answer says of its request."""

    OK = 20_000
    MULTIPLE_RESULTS = 30_000
    BAD_REQUEST = 40_000
    ILLEGAL_TOPIC = 40_002
    ILLEGAL_CONSUMER_GROUP = 40_003
    ILLEGAL_MESSAGE_TAG = 40_004
    ILLEGAL_MESSAGE_KEY = 40_005
    ILLEGAL_MESSAGE_GROUP = 40_006
    ILLEGAL_MESSAGE_PROPERTY_KEY = 40_007
    INVALID_TRANSACTION_ID = 40_008
    ILLEGAL_MESSAGE_ID = 40_009
    ILLEGAL_FILTER_EXPRESSION = 40_010
    ILLEGAL_INVISIBLE_TIME = 40_011
    ILLEGAL_DELIVERY_TIME = 40_012
    INVALID_RECEIPT_HANDLE = 40_013
    MESSAGE_PROPERTY_CONFLICT_WITH_TYPE = 40_014
    UNRECOGNIZED_CLIENT_TYPE = 40_015
    CLIENT_ID_REQUIRED = 40_017
    ILLEGAL_POLLING_TIME = 40_018
    UNAUTHORIZED = 40_100
    FORBIDDEN = 40_300
    MESSAGE_NOT_FOUND = 40_401
    TOPIC_NOT_FOUND = 40_402
    MESSAGE_BODY_TOO_LARGE = 41_301
    MESSAGE_BODY_EMPTY = 41_302
    TOO_MANY_REQUESTS = 42_900
    MESSAGE_PROPERTIES_TOO_LARGE = 43_101
    INTERNAL_SERVER_ERROR = 50_001
    HA_NOT_AVAILABLE = 50_002
    SLAVE_PERSISTENCE_TIMEOUT = 50_402
    UNSUPPORTED = 50_500


class ClientType(IntEnum):
    """What a client is."""

    UNSPECIFIED = 0
    PRODUCER = 1
    PUSH_CONSUMER = 2
    SIMPLE_CONSUMER = 3


class MessageType(IntEnum):
    """How a message is to be delivered."""

    UNSPECIFIED = 0
    NORMAL = 1
    FIFO = 2
    DELAY = 3
    TRANSACTION = 4
    LITE = 5
    PRIORITY = 6


class Encoding(IntEnum):
    """How a body is compressed."""

    UNSPECIFIED = 0
    IDENTITY = 1
    GZIP = 2


class Permission(IntEnum):
    """What may be done with a queue."""

    READ_WRITE = 4


class AddressScheme(IntEnum):
    """What the hosts of an address are."""

    IPV4 = 1
    IPV6 = 2
    DOMAIN_NAME = 3
