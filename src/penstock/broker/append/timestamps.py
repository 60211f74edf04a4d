"""Whether the timestamps of a produced batch are within the bounds of its topic.

    now - before.max  <=  CreateTime  <=  now + after.max      both inclusive; -1, no time, is valid

Single records are checked only for a refusal, which names those that the client has to leave out: a
limited number, among the first of the batch; the error code covers the rest.
Source: Kafka `LogValidator.validateTimestamp`, KIP-937 (bounds), KIP-467 (errors by record).
"""

from collections.abc import Iterator
from itertools import islice

from penstock.broker.append.batch_rules import BatchRules
from penstock.record.batch import BatchHeader
from penstock.record.errors import InvalidTimestamp
from penstock.record.read import read_raw
from penstock.record.walk import NO_TIMESTAMP, Times

RECORD_ERRORS_MAX = 100
LOOKED_AT_MAX = 500
"""Records checked in the interpreter: about 2 ms."""


def check_times(times: Times, rules: BatchRules, now_ms: int) -> None:
    """Raise InvalidTimestamp unless the oldest and the newest timestamp are within the bounds."""
    if _are_within(times, rules, now_ms):
        return
    oldest_ms, newest_ms = times
    fault = _fault(newest_ms, rules, now_ms) or _fault(oldest_ms, rules, now_ms)
    raise InvalidTimestamp(fault)


def check_records(
    block: memoryview, header: BatchHeader, times: Times, rules: BatchRules, now_ms: int
) -> None:
    """As `check_times`, with the decompressed records: the error names those at fault."""
    if rules.is_log_append_time or _are_within(times, rules, now_ms):
        return
    try:
        check_times(times, rules, now_ms)
    except InvalidTimestamp as error:
        faults = islice(faults_of(block, header, rules, now_ms), RECORD_ERRORS_MAX)
        raise InvalidTimestamp(error.reason, record_errors=tuple(faults)) from None


def _are_within(times: Times, rules: BatchRules, now_ms: int) -> bool:
    """Whether both are within the bounds, or there is no time; read once for each batch."""
    oldest_ms, newest_ms = times
    first_ms = now_ms - rules.timestamp_before_max_ms
    last_ms = now_ms + rules.timestamp_after_max_ms
    is_within = first_ms <= newest_ms <= last_ms and first_ms <= oldest_ms <= last_ms
    return is_within or newest_ms == NO_TIMESTAMP


def _fault(time_ms: int, rules: BatchRules, now_ms: int) -> str:
    if time_ms > now_ms + rules.timestamp_after_max_ms:
        return f"{time_ms} is too far in the future"
    if time_ms < now_ms - rules.timestamp_before_max_ms:
        return f"{time_ms} is too far in the past"
    return ""


def faults_of(
    block: memoryview, header: BatchHeader, rules: BatchRules, now_ms: int
) -> Iterator[tuple[int, str]]:
    """Yield the first records with a wrong time; where keys are needed, only those with a key."""
    at = 0
    for index in range(min(header.record_count, LOOKED_AT_MAX)):
        record = read_raw(block, at)
        time_ms = header.base_timestamp + record.timestamp_delta
        is_asked = time_ms != NO_TIMESTAMP and not (rules.needs_keys and record.key is None)
        fault = _fault(time_ms, rules, now_ms) if is_asked else ""
        if fault:
            yield index, fault
        at = record.end
