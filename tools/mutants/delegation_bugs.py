"""Planted bugs of delegation tokens: who may ask, who is let in, and what ends a token."""

from .mutant import Kind, plant

AREA = "Access"
GATE, SESSION = "kafka/gate.py", "kafka/sasl/session.py"
SECRET, LOGINS = "access/delegation.py", "node/access/token_logins.py"
COMMANDS = "controller/commands/delegation/tokens.py"
HANDLERS = "kafka/handlers/access"
ASKED = ("tests/kafka/test_delegation_tokens.py", "tests/kafka/test_needs.py")
LET_IN = ("tests/node/test_token_logins.py", "tests/kafka/test_delegation_tokens.py")
SECRETS = ("tests/access/test_delegation.py", "tests/kafka/test_delegation_tokens.py")
CHANGED = ("tests/controller/test_tokens.py", "tests/kafka/test_delegation_tokens.py")

MUTANTS = (
    plant(
        "delegation-token-asks-for-tokens",
        AREA,
        "who is known by a token may ask for another, and so live for ever",
        (
            GATE,
            "    if context.is_by_token or context.principal == ANONYMOUS:\n",
            "    if context.principal == ANONYMOUS:\n",
        ),
        kind=Kind.GUARD,
        near=ASKED,
    ),
    plant(
        "delegation-token-forgotten-by-the-next-context",
        AREA,
        "that a client is known by a token is forgotten where it asks by another client id",
        (
            SESSION,
            "        connection.principal, connection.is_by_token = principal, outcome.is_token\n",
            "        connection.principal = principal\n",
        ),
        kind=Kind.STALE,
        near=ASKED,
    ),
    plant(
        "delegation-token-proof-kept-by-the-context",
        AREA,
        "a context that was there before the proof goes on without knowing that it was a token",
        (SESSION, "            connection.state.is_by_token = outcome.is_token\n", ""),
        kind=Kind.STALE,
        near=ASKED,
    ),
    plant(
        "delegation-token-of-anybody",
        AREA,
        "whoever may ask gets a token of any user",
        (
            f"{HANDLERS}/create_delegation_token.py",
            "        if owner != context.principal:\n",
            "        if not name:\n",
        ),
        kind=Kind.GUARD,
        near=ASKED,
    ),
    plant(
        "delegation-token-lets-in-when-over",
        AREA,
        "a token that is over lets its owner in until it is removed",
        (
            LOGINS,
            "token is None or secret is None or token.is_over(self._wall_ms())",
            "token is None or secret is None",
        ),
        kind=Kind.GUARD,
        near=LET_IN,
    ),
    plant(
        "delegation-token-keys-outlive-their-secret",
        AREA,
        "keys that were derived once count whatever secret the file has now",
        (
            LOGINS,
            "        if known is not None and known[0] is secret:\n",
            "        if known is not None:\n",
        ),
        kind=Kind.STALE,
        near=LET_IN,
    ),
    plant(
        "delegation-token-without-an-end",
        AREA,
        "a session that a token has begun has no end",
        (
            "access/sasl.py",
            "login.owner, expires_ms=login.expires_ms, is_token=True",
            "login.owner, is_token=True",
        ),
        kind=Kind.GUARD,
        near=ASKED,
    ),
    plant(
        "delegation-token-logs-in-as-its-id",
        AREA,
        "the principal of a session is the token's id, not its owner",
        (
            "access/sasl.py",
            "        return Outcome(answer, login.owner, ",
            "        return Outcome(answer, scram.user, ",
        ),
        kind=Kind.STALE,
        near=ASKED,
    ),
    plant(
        "delegation-token-fits-an-empty-proof",
        AREA,
        "an empty HMAC is that of a token whose secret is gone",
        (
            SECRET,
            "        return bool(found) and hmac.compare_digest(found, proof)\n",
            "        return hmac.compare_digest(found, proof)\n",
        ),
        kind=Kind.GUARD,
        near=SECRETS,
    ),
    plant(
        "delegation-token-of-the-first-secret-only",
        AREA,
        "tokens of earlier secrets of the file are taken for those of the first",
        (
            SECRET,
            "        return next((one for one in self.secrets if one.tag == tag), None)\n",
            "        return self.secrets[0] if tag else None\n",
        ),
        kind=Kind.RANGE,
        near=SECRETS,
    ),
    plant(
        "delegation-token-renewed-beyond-its-end",
        AREA,
        "a renewal lets a token live on after its longest lifetime",
        (
            COMMANDS,
            "    expires_ms = min(now_ms + period_ms, token.ends_ms)\n",
            "    expires_ms = now_ms + period_ms\n",
        ),
        kind=Kind.RANGE,
        near=CHANGED,
    ),
    plant(
        "delegation-token-renewed-when-over",
        AREA,
        "a token that is over can be renewed until it is removed",
        (COMMANDS, "    if token.is_over(now_ms):\n", "    if token.expires_ms < now_ms:\n"),
        kind=Kind.RANGE,
        near=CHANGED,
    ),
    plant(
        "delegation-token-renewed-for-any-period",
        AREA,
        "who renews a token chooses for how long",
        (
            COMMANDS,
            "        period_ms = min(period_ms, command.period_ms)\n",
            "        period_ms = command.period_ms\n",
        ),
        kind=Kind.RANGE,
        near=CHANGED,
    ),
)
