"""Planted bugs in how a token of an identity provider is looked at."""

from .mutant import Kind, plant

TOKENS = ("tests/access/test_tokens.py",)
EXCHANGE = ("tests/access/test_bearer.py",)
SESSIONS = ("tests/kafka/test_token_sessions.py",)
KEYS = ("tests/node/test_provider_keys.py",)

MUTANTS = (
    plant(
        "token-of-any-algorithm-of-its-key",
        "Access",
        "an algorithm that the settings do not permit is taken",
        ("access/tokens.py", "algorithm not in rules.algorithms", "algorithm not in KINDS"),
        kind=Kind.GUARD,
        near=TOKENS,
    ),
    plant(
        "token-key-of-another-kind",
        "Access",
        "a key that its provider has made for one algorithm checks signatures of another",
        (
            "access/tokens.py",
            '    if not fits or key.get("alg", algorithm) != algorithm:\n',
            "    if not fits:\n",
        ),
        kind=Kind.GUARD,
        near=TOKENS,
    ),
    plant(
        "token-any-key-for-a-name",
        "Access",
        "a token that names a key which is not there is checked by the only one",
        ("access/tokens.py", "if not name and len(keys) == 1 else", "if len(keys) == 1 else"),
        kind=Kind.GUARD,
        near=TOKENS,
    ),
    plant(
        "token-first-key-for-no-name",
        "Access",
        "a token that names no key is checked by whichever comes first",
        ("access/tokens.py", "if not name and len(keys) == 1 else", "if not name and keys else"),
        kind=Kind.RANGE,
        near=TOKENS,
    ),
    plant(
        "token-header-may-ask-for-more",
        "Access",
        "a header with extensions that must be understood is taken by somebody who does not",
        ("access/tokens.py", '    if "crit" in header:\n', '    if header.get("crit") is True:\n'),
        kind=Kind.GUARD,
        near=TOKENS,
    ),
    plant(
        "token-of-another-audience",
        "Access",
        "a token that another service of the provider was given lets its bearer in here",
        (
            "access/tokens.py",
            "if not any(isinstance(one, str) and one in rules.audiences for one in audiences):",
            "if not audiences:",
        ),
        kind=Kind.GUARD,
        near=TOKENS,
    ),
    plant(
        "token-skew-the-wrong-way",
        "Access",
        "a token is over before its time, on a node whose clock is right",
        ("access/tokens.py", "ends_ms + skew_ms <= now_ms", "ends_ms - skew_ms <= now_ms"),
        kind=Kind.RANGE,
        near=TOKENS,
    ),
    plant(
        "token-good-at-its-very-end",
        "Access",
        "a token is taken in the millisecond in which it is over",
        ("access/tokens.py", "ends_ms + skew_ms <= now_ms", "ends_ms + skew_ms < now_ms"),
        kind=Kind.RANGE,
        near=TOKENS,
    ),
    plant(
        "token-user-with-line-ends",
        "Access",
        "a user's name writes lines of its own into the log",
        ("access/tokens.py", " or not user.isprintable():", ":"),
        kind=Kind.GUARD,
        near=TOKENS,
    ),
    plant(
        "token-bad-one-forgotten",
        "Access",
        "after a token that is not good the next one of the same exchange lets its client in",
        (
            "access/bearer.py",
            "        if self.reason:\n            raise MalformedToken(self.reason)\n",
            "",
        ),
        kind=Kind.CLEARED,
        near=EXCHANGE,
    ),
    plant(
        "token-acts-for-somebody-else",
        "Access",
        "a bearer names another user than the token does",
        ("access/bearer.py", 'if acts_for not in {"", bearer.user}:', 'if acts_for == "admin":'),
        kind=Kind.GUARD,
        near=EXCHANGE,
    ),
    plant(
        "token-session-without-end",
        "Access",
        "a client is known for ever by a token that ends",
        (
            "kafka/sasl/session.py",
            "        if outcome.expires_ms is not None:\n",
            "        if outcome.expires_ms is not None and self.session_ms:\n",
        ),
        kind=Kind.GUARD,
        near=SESSIONS,
    ),
    plant(
        "token-session-of-the-first-token",
        "Access",
        "a session that was renewed ends with the token that began it",
        (
            "kafka/sasl/session.py",
            "        self.session_ms = self._ports.session_ms_max\n        if outcome.expires_ms",
            "        if outcome.expires_ms",
        ),
        kind=Kind.STALE,
        near=SESSIONS,
    ),
    plant(
        "token-keys-over-plain-http",
        "Access",
        "keys come by a way on which anybody can put in his own",
        (
            "node/access/provider_keys.py",
            'parts.scheme == "https"',
            'parts.scheme in {"http", "https"}',
        ),
        kind=Kind.GUARD,
        near=KEYS,
    ),
)
