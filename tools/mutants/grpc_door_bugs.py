"""Planted bugs of the doors of the port for gRPC clients: signatures, users, TLS."""

# ruff: noqa: E501  the text of the source, as it stands there

from .mutant import Kind, plant

AREA = "Doors of gRPC clients"
SIGNATURES = ("tests/access/test_call_signatures.py",)
CHECKS = ("tests/grpc/test_signed_calls.py",)
SIGNED = ("tests/grpc/test_signed.py",)
TLS = ("tests/grpc/test_over_tls.py",)

MUTANTS = (
    plant(
        "grpc-door-dates-are-good-for-good",
        AREA,
        "a signature that somebody has seen is good for ever",
        (
            "access/call_signatures.py",
            "    return found if is_now(date_time, now_ms) else None\n",
            "    return found\n",
        ),
        kind=Kind.GUARD,
        near=SIGNATURES,
    ),
    plant(
        "grpc-door-dates-to-come",
        AREA,
        "a signature made for next year is good until then",
        (
            "access/call_signatures.py",
            "<= ahead_ms <= EAST_MS + SKEW_MS",
            "<= ahead_ms",
        ),
        kind=Kind.RANGE,
        near=SIGNATURES,
    ),
    plant(
        "grpc-door-east-and-west",
        AREA,
        "clients on Kiribati are refused for their time zone",
        (
            "access/call_signatures.py",
            "    return -WEST_MS - SKEW_MS <= ahead_ms <= EAST_MS + SKEW_MS\n",
            "    return -EAST_MS - SKEW_MS <= ahead_ms <= WEST_MS + SKEW_MS\n",
        ),
        kind=Kind.RANGE,
        near=SIGNATURES,
    ),
    plant(
        "grpc-door-nobody-s-secret",
        AREA,
        "who signs by the secret that stands in the source is whoever he says",
        ("access/call_signatures.py", "if is_same and secret is not NOBODYS:", "if is_same:"),
        kind=Kind.GUARD,
        near=SIGNATURES,
    ),
    plant(
        "grpc-door-first-secret-only",
        AREA,
        "a secret can not be replaced without an interruption",
        (
            "access/call_signatures.py",
            "    for secret in (*secrets, *",
            "    for secret in (*secrets[:1], *",
        ),
        kind=Kind.RANGE,
        near=SIGNATURES,
    ),
    plant(
        "grpc-door-other-algorithms",
        AREA,
        "a header of another kind counts as a signature",
        (
            "access/call_signatures.py",
            "    if algorithm != ALGORITHM:\n",
            "    if not algorithm:\n",
        ),
        kind=Kind.GUARD,
        near=SIGNATURES,
    ),
    plant(
        "grpc-door-first-call-only",
        AREA,
        "what comes behind the first good call of a user is not looked at",
        (
            "grpc/signed.py",
            "        proof = proof_of(",
            "        if self._connection.principal:\n"
            "            return self._connection.principal\n"
            "        proof = proof_of(",
        ),
        kind=Kind.STALE,
        near=CHECKS,
    ),
    plant(
        "grpc-door-user-of-the-last-call",
        AREA,
        "who shares a connection calls as the user who was there first",
        (
            "grpc/transport.py",
            "        client = self._clients.get(user)\n",
            "        client = next(iter(self._clients.values()), None)\n",
        ),
        kind=Kind.STALE,
        near=SIGNED,
    ),
    plant(
        "grpc-door-secrets-live-on",
        AREA,
        "streams of a user whose secret was taken away go on",
        (
            "grpc/transport.py",
            "        if self.guard is not None and self.guard.is_late():\n",
            "        if self.guard is not None and not self.principal:\n",
        ),
        kind=Kind.GUARD,
        near=SIGNED,
    ),
    plant(
        "grpc-door-one-late-proof-of-many",
        AREA,
        "a connection lives on as long as one of its users has his secret",
        ("grpc/signed.py", "return not all(proof.is_good", "return not any(proof.is_good"),
        kind=Kind.RANGE,
        near=CHECKS,
    ),
    plant(
        "grpc-door-failures-without-end",
        AREA,
        "a client tries signatures as fast as it can",
        (
            "grpc/signed.py",
            "        if self._failures.take(1, self._clock.monotonic_ms()):\n",
            "        if self._failures.take(0, self._clock.monotonic_ms()):\n",
        ),
        kind=Kind.GUARD,
        near=CHECKS,
    ),
    plant(
        "grpc-door-strangers-are-known",
        AREA,
        "who has proved nothing keeps its place, and its address goes before others",
        (
            "grpc/transport.py",
            "        return self.guard is not None and not self.principal\n",
            "        return self.guard is None and not self.principal\n",
        ),
        kind=Kind.GUARD,
        near=SIGNED,
    ),
    plant(
        "grpc-door-gone-strangers-have-proved-it",
        AREA,
        "who goes without a proof goes before others when he comes again",
        (
            "grpc/transport.py",
            "        self.core.lost()\n        self._account()\n",
            "        self.core.lost()\n        self.guard = None\n        self._account()\n",
        ),
        kind=Kind.CLEARED,
        near=TLS,
    ),
    plant(
        "grpc-door-without-alpn",
        AREA,
        "a client that speaks something else gets frames of HTTP/2",
        (
            "net/tls/side.py",
            "        if self._application and self._tls.selected_alpn_protocol() != self._application:\n",
            "        if self._tls.selected_alpn_protocol() not in {None, self._application}:\n",
        ),
        kind=Kind.GUARD,
        near=TLS,
    ),
    plant(
        "grpc-door-ciphers-of-all-kinds",
        AREA,
        "a client ends the connection, since HTTP/2 does not permit its cipher",
        (
            "node/access/certificates.py",
            "    if application == HTTP2:\n",
            "    if application == HTTP2.upper():\n",
        ),
        kind=Kind.GUARD,
        near=TLS,
    ),
    plant(
        "grpc-door-write-before-its-connection-is-known",
        AREA,
        "who resets as it has shaken hands leaves an error and a connection",
        (
            "net/listener.py",
            "        transport.set_protocol(connection)  # it may write at once, and be told that it waits\n"
            "        connection.connection_made(transport)\n",
            "        connection.connection_made(transport)\n"
            "        transport.set_protocol(connection)\n",
        ),
        kind=Kind.ORDER,
        near=TLS,
    ),
    plant(
        "grpc-door-side-door",
        AREA,
        "a closed node serves everybody at the port for gRPC clients",
        (
            "node/access/exposure.py",
            "(LISTENER_NAME, settings.remoting.port), (GRPC, settings.grpc.port)",
            "(LISTENER_NAME, settings.remoting.port), (LISTENER_NAME, settings.grpc.port)",
        ),
        kind=Kind.GUARD,
        near=("tests/node/test_exposure.py",),
    ),
    plant(
        "grpc-door-secure-leaves-it-open",
        AREA,
        "penstock up --secure has a port that asks nobody",
        (
            "cli/launch/launcher.py",
            "    return [name for name in (LISTENER_NAME, GRPC) if",
            "    return [name for name in (LISTENER_NAME,) if",
        ),
        kind=Kind.GUARD,
        near=("tests/cli/test_secured.py",),
    ),
)
