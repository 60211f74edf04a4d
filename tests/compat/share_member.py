"""A stock share consumer as a process, which can be stopped or killed while it holds records.

`python -m tests.compat.share_member BOOTSTRAP GROUP TOPIC [--holds]`: it accepts what it gets and
says so, a line of JSON for each commit, until its standard input ends. With `--holds` it says what
it holds, waits for a line, and only then accepts that, and ends.
"""

import json
import sys
import threading

from confluent_kafka import ShareConsumer

POLL_SECONDS, COMMIT_SECONDS = 0.5, 60.0


def main() -> None:
    """Read the command line and consume."""
    bootstrap, group, topic, *options = sys.argv[1:]
    consumer = ShareConsumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "share.acknowledgement.mode": "explicit",
            "log_level": 0,
        }
    )
    consumer.subscribe([topic])
    is_over = threading.Event()
    holds = "--holds" in options
    if not holds:
        threading.Thread(target=_wait, args=(is_over,), daemon=True).start()
    while not is_over.is_set():
        found = [one for one in consumer.poll(POLL_SECONDS) if one.error() is None]
        if not found:
            continue
        values = {(one.partition(), one.offset()): (one.value() or b"").decode() for one in found}
        if holds:
            _say("holds", [*values.values()])
            sys.stdin.readline()
            is_over.set()
        for one in found:
            consumer.acknowledge(one)
        taken = {
            place.partition
            for place, error in consumer.commit_sync(COMMIT_SECONDS).items()
            if error is None
        }
        accepted = [value for (partition, _), value in values.items() if partition in taken]
        _say("accepted", accepted)
    consumer.close()


def _wait(is_over: threading.Event) -> None:
    sys.stdin.read()
    is_over.set()


def _say(what: str, values: list[str]) -> None:
    sys.stdout.write(json.dumps({what: values}) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
