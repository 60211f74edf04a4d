"""Ending transactions that other processes have written: commit or abort many at a time.

Positions of a group may be part of one (`commit_positions`): they count if, and once, it does.

The idea: version 2 of transactions gives each one an epoch of its own. Id, producer id and epoch
therefore name one transaction for ever: a request that is repeated, or comes late, ends that one or
none.

    answer                  to a commit                       to an abort
    NONE                    committed, now or before          aborted, now or before
    INVALID_TXN_STATE       it was aborted (its time-out)     it was committed
    fenced, unknown id      the id was used again since then, or is forgotten: how it ended is not
                            known here

Source: KIP-890 (EndTxn 5, TxnOffsetCommit 5); Kafka `TransactionCoordinator.endTransaction`.
"""

from collections.abc import Mapping, Sequence
from contextlib import closing

from penstock.client.cluster import TRANSACTION_KEY, Cluster, Retries, check_code, may_pass
from penstock.client.delivery import OpenTransaction
from penstock.client.errors import BrokerError, ClientError, error_code
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode

Outcomes = dict[OpenTransaction, ErrorCode]
_FINAL = frozenset(
    {
        ErrorCode.NONE,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    }
)


def end_transactions(
    cluster: Cluster, transactions: Sequence[OpenTransaction], *, is_commit: bool
) -> Outcomes:
    """Commit or abort, and return the answer for each (see above) once all are there.

    A transaction that was committed is visible a moment later, when its partitions have heard of
    it. Raises RequestTimedOut and other ClientErrors: then some may have ended.
    """
    verb = "commit" if is_commit else "abort"
    retries = Retries(cluster.settings, f"{verb} of {len(transactions)} transactions")
    outcomes: Outcomes = {}
    while left := [one for one in transactions if one not in outcomes]:
        count = len(outcomes)
        error = _round(cluster, left, outcomes, is_commit=is_commit)
        if len(outcomes) > count:
            retries.restart()
        if error is not None:
            retries.pause_or_raise(error)
    return outcomes


def _round(
    cluster: Cluster, left: list[OpenTransaction], outcomes: Outcomes, *, is_commit: bool
) -> ClientError | None:
    """Ask each coordinator once; return an error after which it is worth asking again, if any."""
    named = {one.transactional_id: one for one in left}
    worst: ClientError | None = None
    try:
        asked = _coordinators(cluster, list(named))
    except ClientError as error:
        cluster.close()  # the next attempt may find a broker that knows more
        return error
    for broker_id, names in asked.items():
        some = [named[name] for name in names]
        try:
            worst = _ask(cluster, broker_id, some, outcomes, is_commit=is_commit) or worst
        except ClientError as error:
            worst = error if worst is None or may_pass(worst) else worst
    return worst


def _coordinators(cluster: Cluster, names: Sequence[str]) -> dict[int, list[str]]:
    """Return the transactional ids by the broker that coordinates them."""
    found: dict[int, list[str]] = {}
    asked = ({"key": name, "key_type": TRANSACTION_KEY} for name in names)
    answers = cluster.any_connection().call_each(ApiKey.FIND_COORDINATOR, asked)
    with closing(answers):
        for name, answer in zip(names, answers, strict=True):
            check_code(answer.error_code, f"coordinator of {name}")
            found.setdefault(answer.node_id, []).append(name)
    return found


def _ask(
    cluster: Cluster,
    broker_id: int,
    some: list[OpenTransaction],
    outcomes: Outcomes,
    *,
    is_commit: bool,
) -> ClientError | None:
    """Ask one coordinator, and note what is final."""
    worst: ClientError | None = None
    asked = (one._asdict() | {"committed": is_commit} for one in some)
    answers = cluster.connection(broker_id).call_each(ApiKey.END_TXN, asked)
    with closing(answers):
        for one, answer in zip(some, answers, strict=True):
            code = error_code(int(answer.error_code))
            if code in _FINAL:
                outcomes[one] = code
            else:
                worst = BrokerError(code, f"end of transaction {one.transactional_id}")
    return worst


def commit_positions(
    cluster: Cluster,
    transaction: OpenTransaction,
    group_id: str,
    positions: Mapping[tuple[str, int], tuple[int, str]],
) -> None:
    """Write positions of a group, of topic and partition, with a text each, in a transaction.

    May be repeated. Raises RequestTimedOut, BrokerError (INVALID_PRODUCER_EPOCH and others).
    """
    topics: dict[str, list[dict[str, object]]] = {}
    for (topic, partition), (offset, text) in positions.items():
        entry = {
            "partition_index": partition,
            "committed_offset": offset,
            "committed_leader_epoch": -1,
            "committed_metadata": text,
        }
        topics.setdefault(topic, []).append(entry)
    fields = {
        **transaction._asdict(),
        "group_id": group_id,
        "generation_id": -1,
        "member_id": "",
        "group_instance_id": None,
        "topics": [{"name": name, "partitions": entries} for name, entries in topics.items()],
    }

    def attempt() -> None:
        connection = cluster.coordinator_connection(group_id)
        for topic in connection.call(ApiKey.TXN_OFFSET_COMMIT, fields).topics:
            for told in topic.partitions:
                what = f"position of group {group_id} in {topic.name}-{told.partition_index}"
                check_code(told.error_code, what)

    cluster.retry(f"positions of group {group_id}", attempt)
