"""Bugs of the handlers of RocketMQ's gRPC clients, for which simulated clients were written."""

from .mutant import Kind, plant

AREA = "gRPC clients that are simulated"
CHECKS = "tests/sim/test_grpc_checks.py"
SENDING = ("tests/grpc/test_sending.py", CHECKS)
RECEIVING = ("tests/grpc/test_receiving.py", CHECKS)
DELAYS = ("tests/grpc/test_delays.py", CHECKS)
RENEWING = ("tests/grpc/test_renewing.py", CHECKS)
ATTEMPTS = ("tests/grpc/test_attempts.py", "tests/grpc/test_ordered.py", CHECKS)
TRANSACTIONS = ("tests/grpc/test_transactions.py", CHECKS)

MUTANTS = (
    plant(
        "grpc-simulated-forward-gives-back",
        AREA,
        "a message that is forwarded to the dead letters comes to somebody else instead",
        (
            "grpc/methods/change_invisible.py",
            "    say(call, claim, Say.REJECT, None, partial(_forwarded, call, group))\n",
            "    say(call, claim, Say.RELEASE, None, partial(_forwarded, call, group))\n",
        ),
        kind=Kind.GUARD,
        near=RECEIVING,
    ),
    plant(
        "grpc-simulated-lapsed-is-acknowledged",
        AREA,
        "an acknowledgement that came too late is told to hold",
        (
            "grpc/methods/ack_message.py",
            "            is_over = refused is None and answer.verdicts[at] is Verdict.LAPSED\n",
            "            is_over = refused is not None and answer.verdicts[at] is Verdict.LAPSED\n",
        ),
        kind=Kind.STALE,
        near=RECEIVING,
    ),
    plant(
        "grpc-simulated-attempt-outlives-acknowledgement",
        AREA,
        "an answer that was acknowledged comes again under its attempt id",
        (
            "grpc/consuming/attempts.py",
            "        attempt = self._of.get((key, nonce))\n        if attempt is not None:\n",
            "        attempt = self._of.get((key, nonce))\n        if attempt is None:\n",
        ),
        kind=Kind.CLEARED,
        near=ATTEMPTS,
    ),
    plant(
        "grpc-simulated-decisions-swapped",
        AREA,
        "what a producer commits is rolled back",
        (
            "grpc/methods/end_transaction.py",
            "_OUTCOMES: Final = {1: Outcome.COMMIT, 2: Outcome.ROLLBACK}\n",
            "_OUTCOMES: Final = {2: Outcome.COMMIT, 1: Outcome.ROLLBACK}\n",
        ),
        kind=Kind.ORDER,
        near=TRANSACTIONS,
    ),
    plant(
        "grpc-simulated-recall-always-holds",
        AREA,
        "a recall that came too late, or was not confirmed, is told to hold",
        (
            "grpc/methods/recall_message.py",
            "    except PlatformError as error:\n        call.fail(error)\n        return\n",
            "    except PlatformError:\n        pass\n",
        ),
        kind=Kind.GUARD,
        near=DELAYS,
    ),
    plant(
        "grpc-simulated-receipt-of-the-first",
        AREA,
        "all messages of an answer have the receipt of its first",
        (
            "grpc/consuming/delivered.py",
            "            receipt = write_receipt(partition, seen.record.offset, number)\n",
            "            first = popped.messages[0][0].record.offset\n"
            "            receipt = write_receipt(partition, first, number)\n",
        ),
        kind=Kind.RANGE,
        near=RECEIVING,
    ),
    plant(
        "grpc-simulated-end-acknowledges",
        AREA,
        "a consumer that ends acknowledges what it has, and nobody else gets it",
        (
            "grpc/consuming/renewing.py",
            "                self._say(handed, Say.RELEASE, None, _ignore)\n",
            "                self._say(handed, Say.ACCEPT, None, _ignore)\n",
        ),
        kind=Kind.GUARD,
        near=RENEWING,
    ),
    plant(
        "grpc-simulated-delivery-in-seconds",
        AREA,
        "a delayed message comes up to a second early, since only whole seconds count",
        (
            "grpc/producing/delays.py",
            "    ms = told.seconds * 1_000 - (-told.nanos // _NANOS_IN_MS)\n",
            "    ms = told.seconds * 1_000\n",
        ),
        kind=Kind.RANGE,
        near=DELAYS,
    ),
    plant(
        "grpc-simulated-answers-count-from-one",
        AREA,
        "of several messages of a request each is told the offset of the next one",
        (
            "grpc/methods/send_message.py",
            "        for at, one in enumerate(ids)\n",
            "        for at, one in enumerate(ids, 1)\n",
        ),
        kind=Kind.RANGE,
        near=SENDING,
    ),
)
