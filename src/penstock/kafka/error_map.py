"""The only mapping of exceptions to Kafka error codes. Handlers do not choose numbers.

The table is searched along the base classes of the exception, so that a subclass without a row has
the code of its parent.
"""

from typing import Final

from penstock.base.errors import PlatformError
from penstock.broker.errors import (
    ClusterNotAuthorised,
    CoordinatorFenced,
    DeletionAgainstPolicy,
    ElectionNotNeeded,
    GroupNotAuthorised,
    InternalTopicRefused,
    InvalidAcks,
    InvalidPrincipalKind,
    InvalidTransaction,
    MutationQuotaExceeded,
    NoAuthoriser,
    OffsetNotAvailable,
    PreferredMasterNotAvailable,
    TierUnavailable,
    TokenNotAuthorised,
    TokenRequestRefused,
    TokensDisabled,
    TooManyTransactions,
    TopicNotAuthorised,
    TransactionNotAuthorised,
    UnknownPartition,
    VerificationRefused,
)
from penstock.controller import errors as controller
from penstock.protocol import errors as wire
from penstock.protocol.error_codes import ErrorCode
from penstock.quotas import errors as quotas
from penstock.record import errors as record
from penstock.replication import errors as replication
from penstock.storage import errors as storage
from penstock.telemetry import errors as telemetry

_CODES: Final[dict[type[PlatformError], ErrorCode]] = {
    PlatformError: ErrorCode.UNKNOWN_SERVER_ERROR,
    UnknownPartition: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    InternalTopicRefused: ErrorCode.INVALID_TOPIC_EXCEPTION,
    DeletionAgainstPolicy: ErrorCode.POLICY_VIOLATION,
    InvalidTransaction: ErrorCode.INVALID_TXN_STATE,
    TooManyTransactions: ErrorCode.NOT_ENOUGH_REPLICAS,
    CoordinatorFenced: ErrorCode.TRANSACTION_COORDINATOR_FENCED,
    MutationQuotaExceeded: ErrorCode.THROTTLING_QUOTA_EXCEEDED,
    InvalidAcks: ErrorCode.INVALID_REQUIRED_ACKS,
    TopicNotAuthorised: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    GroupNotAuthorised: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ClusterNotAuthorised: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    TransactionNotAuthorised: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    TokenNotAuthorised: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    TokensDisabled: ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED,
    TokenRequestRefused: ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
    InvalidPrincipalKind: ErrorCode.INVALID_PRINCIPAL_TYPE,
    NoAuthoriser: ErrorCode.SECURITY_DISABLED,
    OffsetNotAvailable: ErrorCode.OFFSET_NOT_AVAILABLE,
    TierUnavailable: ErrorCode.KAFKA_STORAGE_ERROR,
    ElectionNotNeeded: ErrorCode.ELECTION_NOT_NEEDED,
    PreferredMasterNotAvailable: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
    wire.WireError: ErrorCode.INVALID_REQUEST,
    wire.UnsupportedVersion: ErrorCode.UNSUPPORTED_VERSION,
    record.RecordError: ErrorCode.CORRUPT_MESSAGE,
    record.UnsupportedMagic: ErrorCode.INVALID_RECORD,
    record.UnsupportedCodec: ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    record.InvalidRecord: ErrorCode.INVALID_RECORD,
    record.InvalidTimestamp: ErrorCode.INVALID_TIMESTAMP,
    record.BatchTooLarge: ErrorCode.MESSAGE_TOO_LARGE,
    telemetry.InvalidInstance: ErrorCode.INVALID_REQUEST,
    telemetry.InstanceEnded: ErrorCode.INVALID_REQUEST,
    telemetry.EarlyRequest: ErrorCode.THROTTLING_QUOTA_EXCEEDED,
    telemetry.UnknownSubscription: ErrorCode.UNKNOWN_SUBSCRIPTION_ID,
    telemetry.UnknownCompression: ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    telemetry.TelemetryTooLarge: ErrorCode.TELEMETRY_TOO_LARGE,
    telemetry.MalformedTelemetry: ErrorCode.INVALID_RECORD,
    quotas.InvalidQuota: ErrorCode.INVALID_REQUEST,
    quotas.UnknownEntityKind: ErrorCode.UNSUPPORTED_VERSION,
    replication.ReplicationError: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    replication.NotMaster: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    replication.FencedLeaderEpoch: ErrorCode.FENCED_LEADER_EPOCH,
    replication.UnknownLeaderEpoch: ErrorCode.UNKNOWN_LEADER_EPOCH,
    replication.NotEnoughReplicas: ErrorCode.NOT_ENOUGH_REPLICAS,
    replication.NotEnoughReplicasAfterAppend: ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    storage.StorageError: ErrorCode.KAFKA_STORAGE_ERROR,
    storage.LogBusy: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    storage.LogFollows: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    storage.BatchTooLargeForLog: ErrorCode.MESSAGE_TOO_LARGE,
    storage.OffsetOutOfRange: ErrorCode.OFFSET_OUT_OF_RANGE,
    storage.OutOfOrderSequence: ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    storage.ProducerFenced: ErrorCode.INVALID_PRODUCER_EPOCH,
    storage.UnknownProducer: ErrorCode.UNKNOWN_PRODUCER_ID,
    controller.MetadataError: ErrorCode.UNKNOWN_SERVER_ERROR,
    controller.RefusedCommand: ErrorCode.INVALID_REQUEST,
    controller.InvalidTopicName: ErrorCode.INVALID_TOPIC_EXCEPTION,
    controller.TopicExists: ErrorCode.TOPIC_ALREADY_EXISTS,
    controller.UnknownTopic: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    controller.UnknownTopicId: ErrorCode.UNKNOWN_TOPIC_ID,
    controller.InvalidPartitions: ErrorCode.INVALID_PARTITIONS,
    controller.InvalidReplicationFactor: ErrorCode.INVALID_REPLICATION_FACTOR,
    controller.InvalidReplicaAssignment: ErrorCode.INVALID_REPLICA_ASSIGNMENT,
    controller.InvalidConfig: ErrorCode.INVALID_CONFIG,
    controller.MetadataPolicyViolation: ErrorCode.POLICY_VIOLATION,
    controller.UnacceptableCredential: ErrorCode.UNACCEPTABLE_CREDENTIAL,
    controller.DuplicateCredential: ErrorCode.DUPLICATE_RESOURCE,
    controller.CredentialNotFound: ErrorCode.RESOURCE_NOT_FOUND,
    controller.UnknownScramMechanism: ErrorCode.UNSUPPORTED_SASL_MECHANISM,
    controller.TokenNotFound: ErrorCode.DELEGATION_TOKEN_NOT_FOUND,
    controller.NotOwnerOfToken: ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH,
    controller.TokenExpired: ErrorCode.DELEGATION_TOKEN_EXPIRED,
    controller.UnknownBroker: ErrorCode.BROKER_NOT_AVAILABLE,
    controller.FeatureLevelTooLow: ErrorCode.UNSUPPORTED_VERSION,
    controller.FeatureLevelRefused: ErrorCode.INVALID_UPDATE_VERSION,
    controller.BrokerIdTaken: ErrorCode.DUPLICATE_BROKER_REGISTRATION,
    controller.NotReplica: ErrorCode.INELIGIBLE_REPLICA,
    controller.NoReassignment: ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
    controller.NoEligibleMaster: ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
    controller.TransferFailed: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
    controller.StaleLeaderEpoch: ErrorCode.FENCED_LEADER_EPOCH,
    controller.StaleSyncStateSet: ErrorCode.INVALID_UPDATE_VERSION,
    controller.NotActiveController: ErrorCode.NOT_CONTROLLER,
    controller.MetadataTimeout: ErrorCode.REQUEST_TIMED_OUT,
    controller.MetadataQueueFull: ErrorCode.THROTTLING_QUOTA_EXCEEDED,
    controller.MetadataUnavailable: ErrorCode.KAFKA_STORAGE_ERROR,
}


def error_code_of(error: PlatformError) -> ErrorCode:
    """Return the Kafka error code for an error of any room."""
    if isinstance(error, VerificationRefused):
        return ErrorCode(error.code)
    for kind in type(error).__mro__:
        code = _CODES.get(kind)
        if code is not None:
            return code
    return ErrorCode.UNKNOWN_SERVER_ERROR
