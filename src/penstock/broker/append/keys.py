"""Refuses a batch with records without a key, where its topic is compacted.

    walk ─► some lack a key ─► one with a key has a wrong time too? ─► InvalidTimestamp
                                         └─► none has ─► RecordsWithoutKey

A compacted topic keeps the last record of each key, so that one without a key could neither stay
nor go. The walk over the records finds them, and this module is reached by refused batches alone.

Source: Kafka `LogValidator.validateRecord` (a record that lacks its key is not asked for its time),
`processRecordErrors` (one wrong time makes the error of the batch InvalidTimestamp).
Departure: what is named is bounded, as for times (timestamps.py).
"""

from itertools import islice

from penstock.broker.append.batch_rules import BatchRules
from penstock.broker.append.timestamps import RECORD_ERRORS_MAX, check_times, faults_of
from penstock.record.errors import InvalidTimestamp, RecordsWithoutKey
from penstock.record.validate import Validated
from penstock.record.walk import Keyless


def refuse_keyless(found: Validated, keyless: Keyless, rules: BatchRules, now_ms: int) -> None:
    """Raise RecordsWithoutKey, or InvalidTimestamp, which names the records without a key too."""
    if not rules.is_log_append_time:
        try:
            check_times(found.times, rules, now_ms)
        except InvalidTimestamp as error:
            _refuse_times(found, keyless, rules, now_ms, error.reason)
    raise RecordsWithoutKey(keyless.total, keyless.places)


def _refuse_times(
    found: Validated, keyless: Keyless, rules: BatchRules, now_ms: int, reason: str
) -> None:
    """Raise InvalidTimestamp if a record with a key is among those at fault."""
    faults = faults_of(found.block, found.header, rules, now_ms)
    named = tuple(islice(faults, RECORD_ERRORS_MAX))
    if named:
        raise InvalidTimestamp(reason, record_errors=named, keyless=keyless.places) from None
