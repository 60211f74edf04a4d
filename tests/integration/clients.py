"""Small blocking helpers around stock clients."""

from collections.abc import Mapping

import pytest
from confluent_kafka import KafkaError, Message, Producer

FAST_FAILURE = {"retries": 0, "message.timeout.ms": 60_000, "linger.ms": 0, "log_level": 0}
"""What a broker refuses is told as it is, also what a client would ask for once more."""
PATIENT = {"enable.idempotence": True, "retries": 1_000_000, "message.timeout.ms": 120_000}
"""As a good client: whoever is asked may not lead any more, or not know yet that it leads."""
FLUSH_SECONDS = 150
"""More than a message may take: each has its answer then."""


def send(
    bootstrap: str,
    topic: str,
    values: list[bytes],
    *,
    partition: int = 0,
    settings: Mapping[str, object] | None = None,
) -> list[tuple[bytes, KafkaError | None]]:
    """Produce with acks=all and wait for every answer, in the order of the answers."""
    answers: list[tuple[bytes, KafkaError | None]] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        answers.append((bytes(message.value() or b""), error))

    producer = Producer(
        {"bootstrap.servers": bootstrap, "acks": "all", **FAST_FAILURE, **(settings or {})}
    )
    for value in values:
        producer.produce(topic, value, partition=partition, on_delivery=delivered)
        producer.poll(0)
    assert producer.flush(FLUSH_SECONDS) == 0
    return answers


def send_all(bootstrap: str, topic: str, values: list[bytes], *, partition: int = 0) -> None:
    """Produce as a good client does: each value once, in order; all have to be acknowledged."""
    check_all_acked(send(bootstrap, topic, values, partition=partition, settings=PATIENT), values)


def acked(answers: list[tuple[bytes, KafkaError | None]]) -> list[bytes]:
    """Return the values that were acknowledged."""
    return [value for value, error in answers if error is None]


def check_all_acked(answers: list[tuple[bytes, KafkaError | None]], values: list[bytes]) -> None:
    """Check that all values were acknowledged, in order; tells of the first that was not."""
    found = acked(answers)
    if found == values:
        return
    positions = {value: number for number, value in enumerate(values)}
    taken = [positions[value] for value in found]
    missing = sorted(set(positions.values()).difference(taken))
    refusals = {str(error) for _, error in answers if error is not None}
    order = "in order" if taken == sorted(set(taken)) else f"in another order: {taken}"
    pytest.fail(
        f"{len(found)} of {len(values)} values were acknowledged, {order}; "
        f"missing are {len(missing)} from {missing[:1]} on: {refusals}"
    )


def errors(answers: list[tuple[bytes, KafkaError | None]]) -> set[int]:
    """Return the error codes that came back."""
    return {error.code() for _, error in answers if error is not None}
