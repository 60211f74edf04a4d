"""Bugs of usual messages by gRPC: what is acknowledged with one claim, what is unpacked for it, and
when the record of a hand-out is written.

Planted before the tests were looked at, with nine more in the compiled twins, where this table
plants nothing. Unseen at first, and seen by now:

    acknowledging-is-not-heard
    everything-is-looked-at-that-nobody-filters
    few-are-looked-at-of-what-was-aborted
    a twin that takes 0x7F for a character that is shown
"""

# ruff: noqa: E501  the text of the source, as it stands there

from .mutant import Kind, plant

AREA = "gRPC consumers"
RENEWING = ("tests/grpc/test_renewing.py",)
RECEIVING = ("tests/grpc/test_receiving.py", "tests/grpc/test_ordered.py")
LINGERING = ("tests/shares/test_lingering.py",)
LOOKING = ("tests/grpc/test_looked_at.py", "tests/grpc/test_receiving.py")

MUTANTS = (
    plant("one-message-twice-is-two-messages", AREA, "an entry that is told twice goes as one claim of two messages, and the second one lapses",
          ("grpc/consuming/renewing.py", " or len(said) < len(offsets)", ""),
          kind=Kind.GUARD, near=RENEWING),
    plant("number-of-before-the-renewal", AREA, "what is said while a renewal is on its way has the old number",
          ("grpc/consuming/renewing.py", "handed.waiting is not None or not said", "not said"),
          kind=Kind.STALE, near=RENEWING),
    plant("acknowledged-and-renewed", AREA, "messages that were acknowledged together are renewed for hours",
          ("grpc/consuming/renewing.py", "        handed.offsets -= said\n", ""),
          kind=Kind.CLEARED, near=RENEWING),
    plant("lapsed-as-acknowledged", AREA, "a receipt that is over counts as acknowledged",
          ("grpc/methods/ack_message.py", "if answer.why_not is not None or Verdict.LAPSED in answer.verdicts:", "if answer.why_not is not None:"),
          kind=Kind.GUARD, near=RECEIVING),
    plant("acknowledged-attempt-is-kept", AREA, "an attempt that is repeated gets messages that are acknowledged",
          ("grpc/methods/ack_message.py", "    front.attempts.said(claim.key, claim.nonce)\n\n    def answered", "\n    def answered"),
          kind=Kind.CLEARED, near=RECEIVING),
    plant("acknowledging-is-not-heard", AREA, "the messages of a consumer that only acknowledges are renewed no more",
          ("grpc/methods/ack_message.py", "    front.consumers.hear(call.member, client.broker.clock.monotonic_ms())\n    front.attempts", "    front.attempts"),
          kind=Kind.GUARD, near=RECEIVING),
    plant("few-are-looked-at-with-a-filter", AREA, "a filter that few messages pass takes a read for each few of them",
          ("remoting/pop/popping.py", "asked.filter.wants_all and not read.aborted", "True"),
          kind=Kind.RANGE, near=LOOKING),
    plant("few-are-looked-at-of-what-was-aborted", AREA, "what was aborted takes a read for each few of it",
          ("remoting/pop/popping.py", "asked.filter.wants_all and not read.aborted", "asked.filter.wants_all"),
          kind=Kind.RANGE, near=LOOKING),
    plant("everything-is-looked-at-that-nobody-filters", AREA, "400 records are copied for a receive of 32",
          ("remoting/pop/popping.py", "min(asked.messages_max, LOOKED_MAX) if is_each_wanted else LOOKED_MAX", "LOOKED_MAX"),
          kind=Kind.RANGE, near=LOOKING),
    plant("tags-count-as-none", AREA, "a filter by tags takes every message",
          ("remoting/subscription.py", "return self.tags is None", "return True"),
          kind=Kind.GUARD, near=RECEIVING),
    plant("lingering-updates-of-the-bound", AREA, "one update more lingers than may",
          ("shares/flushing.py", "shares.tally.count >= LINGERING_MAX", "shares.tally.count > LINGERING_MAX"),
          kind=Kind.RANGE, near=LINGERING),
    plant("a-time-for-each-that-lingers", AREA, "hand-outs of a second set a hundred timers",
          ("shares/flushing.py", "            is_first = not self._lingering\n            self._lingering[shares] = None\n", "            self._lingering[shares] = None\n            is_first = True\n"),
          kind=Kind.STALE, near=LINGERING),
    plant("lingering-for-ever", AREA, "after the first one no hand-out sets a time: it is written when somebody says something",
          ("shares/flushing.py", "        lingering, self._lingering = self._lingering, {}\n", "        lingering = self._lingering\n"),
          kind=Kind.CLEARED, near=LINGERING),
    plant("traced-deliveries-linger", AREA, "a trace tells a delivery later than it was",
          ("shares/flushing.py", " or is_traced or ", " or "),
          kind=Kind.GUARD, near=LINGERING),
    plant("nothing-lingers-too", AREA, "a hand-out of nothing sets a time",
          ("shares/flushing.py", "        elif shares.dirty:\n            is_first", "        else:\n            is_first"),
          kind=Kind.GUARD, near=LINGERING),
    plant("acknowledgements-linger", AREA, "an acknowledgement is answered 5 ms later",
          ("shares/coordinator.py", "Answer(why)))\n        self._flushing.soon(shares)", "Answer(why)))\n        self._flushing.with_others(shares, ledger)"),
          kind=Kind.ORDER, near=LINGERING),
)  # fmt: skip
