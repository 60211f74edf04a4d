"""Planted bugs that open a way around the rules, or tell a secret where nobody looks for one."""

# ruff: noqa: E501  the text of the source, as it stands there

from .mutant import Kind, plant

AROUND = ("tests/node/test_ways_around.py",)
FILES = ("tests/node/test_access_files.py",)
LOGINS = ("tests/kafka/test_sasl.py",)
SETTINGS = ("tests/client/test_security_files.py",)

MUTANTS = (
    plant(
        "around-batch-of-a-transaction-without-its-id",
        "Access",
        "who names no transactional id writes into the open transaction of another producer",
        (
            "kafka/produce/transactional.py",
            "return None if before_transactional(frame, parts) is parts else TransactionNotAuthorised()",
            "return None",
        ),
        kind=Kind.GUARD,
        near=AROUND,
    ),
    plant(
        "around-batch-of-a-transaction-in-a-run",
        "Access",
        "the same where requests are pipelined",
        (
            "kafka/handlers/records/produce.py",
            "before_transactional(memory, [request.part for request in requests])",
            "[request.part for request in requests]",
        ),
        kind=Kind.GUARD,
        near=AROUND,
    ),
    plant(
        "around-first-batch-alone-is-looked-at",
        "Access",
        "a request of several batches has its first looked at for a transaction",
        (
            "kafka/produce/transactional.py",
            "for place, (_, _, start, end) in enumerate(parts):",
            "for place, (_, _, start, end) in enumerate(parts[:1]):",
        ),
        kind=Kind.RANGE,
        near=AROUND,
    ),
    plant(
        "around-retry-topic-of-any-group",
        "Access",
        "the retry topic of a group is read and written by who may not consume with it",
        (
            "remoting/gate.py",
            "    else:\n        check(context, Operation.READ, Resource.GROUP, group)\n",
            "",
        ),
        kind=Kind.GUARD,
        near=AROUND,
    ),
    plant(
        "around-dead-letters-by-the-told-name",
        "Access",
        "a rule for the name that clients tell counts in place of one for the stored name",
        (
            "remoting/gate.py",
            "check(context, operation, Resource.TOPIC, stored)",
            "check(context, operation, Resource.TOPIC, stored if stored == name else 'open')",
        ),
        kind=Kind.GUARD,
        near=AROUND,
    ),
    plant(
        "around-topic-of-the-first-message",
        "Access",
        "all messages of a gRPC request go where the first is for",
        ("grpc/methods/send_message.py", "if len(names) > 1:", "if len(names) > 2:"),
        kind=Kind.RANGE,
        near=AROUND,
    ),
    plant(
        "around-internal-topics-take-messages",
        "Access",
        "a client with all permissions writes what only the platform writes",
        (
            "broker/append/append.py",
            "    if topic.internal:\n        raise InternalTopicRefused\n",
            "",
        ),
        kind=Kind.GUARD,
        near=AROUND,
    ),
    plant(
        "secret-line-of-a-file-is-quoted",
        "Access",
        "a line of a file with passwords that is not understood is quoted in the log",
        (
            "node/access/files.py",
            "line {number} is no user:password",
            "line {number} is no user:password: {line}",
        ),
        kind=Kind.GUARD,
        near=FILES,
    ),
    plant(
        "secret-token-in-the-log",
        "Access",
        "a token that is refused stands in the log",
        (
            "kafka/sasl/session.py",
            'by {self.server.mechanism}: {outcome.reason}"',
            'by {self.server.mechanism}: {outcome.reason} {bytes(token)!r}"',
        ),
        kind=Kind.GUARD,
        near=LOGINS,
    ),
    plant(
        "secret-line-of-a-command-s-file-is-quoted",
        "Access",
        "a line of a client's settings that is not understood is quoted",
        (
            "client/security.py",
            "line {number} is no name=value with",
            "line {number}, {line}, is no name=value with",
        ),
        kind=Kind.GUARD,
        near=SETTINGS,
    ),
    plant(
        "secret-password-is-shown",
        "Access",
        "the settings of a client show its password where they are printed",
        (
            "client/security.py",
            'password: str = field(default="", repr=False)',
            'password: str = field(default="")',
        ),
        kind=Kind.GUARD,
        near=SETTINGS,
    ),
)
