"""Planted bugs of who is let in, who waits and who gives way at listeners (ADR 0120)."""

# ruff: noqa: E501  the text of the source, as it stands there

from .mutant import Kind, plant

AREA = "Connections"
ADMISSION = "net/admission/admission.py"
GIVING_WAY = "net/admission/giving_way.py"
UNPROVEN = "net/admission/unproven.py"
RATE = "net/admission/creation_rate.py"
KEEPER = "net/admission/doorkeeper.py"
LISTENER = "net/listener.py"
UNIT = ("tests/net/admission/test_admission.py", "tests/net/admission/test_giving_way.py")
SOCKETS = ("tests/net/admission/test_at_listeners.py", "tests/net/test_tls.py")
NODE = ("tests/kafka/test_connection_limits.py",)

MUTANTS = (
    plant(
        "connections-unproven-unbounded",
        AREA,
        "clients in the middle of TLS or SASL fill every place (the defect that began this)",
        (
            LISTENER,
            "        self._keeper.giving_way.arrived(protocol, self._context.tick)\n",
            "",
        ),
        kind=Kind.GUARD,
        near=SOCKETS,
    ),
    plant(
        "connections-sasl-behind-tls-unbounded",
        AREA,
        "who has shaken hands has proved who it is, though SASL is to come",
        (
            LISTENER,
            "        self._keeper.giving_way.arrived(connection, side.began_tick)\n",
            "",
        ),
        kind=Kind.GUARD,
        near=SOCKETS,
    ),
    plant(
        "connections-known-client-gives-way",
        AREA,
        "a client that has proved who it is gives its place to an unknown one",
        (
            "net/connection.py",
            "return self.guard is not None and not self.principal\n",
            "return self.guard is not None\n",
        ),
        kind=Kind.STALE,
        near=SOCKETS,
    ),
    plant(
        "connections-newest-gives-way",
        AREA,
        "the newest client gives way, which is the one that has had no time",
        (
            UNPROVEN,
            "            client = next(iter(clients))\n",
            "            client = next(reversed(list(clients)))\n",
        ),
        kind=Kind.ORDER,
        near=UNIT,
    ),
    plant(
        "connections-one-unproven-too-many",
        AREA,
        "an address may have one more than its bound",
        (
            GIVING_WAY,
            "        if table.count_of(address) > most:\n",
            "        if table.count_of(address) > most + 1:\n",
        ),
        kind=Kind.RANGE,
        near=UNIT,
    ),
    plant(
        "connections-handshake-wait-counts",
        AREA,
        "who has waited for our turn to shake hands is the first to give way when it comes",
        (
            UNPROVEN,
            "            self.add(client, entry.came_tick)\n",
            "            self.add(client, entry.came_tick)\n            self._entries = {client: self._entries.pop(client), **self._entries}\n",
        ),
        kind=Kind.ORDER,
        near=UNIT,
    ),
    plant(
        "connections-time-starts-anew",
        AREA,
        "a client that goes on with its handshake gets the whole time again",
        (
            GIVING_WAY,
            "            for client in table.late(tick - self._seconds_max):\n",
            "            for client in table.late(tick - 2 * self._seconds_max):\n",
        ),
        kind=Kind.RANGE,
        near=UNIT,
    ),
    plant(
        "connections-flood-ends-operators",
        AREA,
        "a flood at another listener ends handshakes of operators",
        (
            GIVING_WAY,
            "        return self._of_protected if listener == self._protected else self._others\n",
            "        return self._others\n",
        ),
        kind=Kind.GUARD,
        near=UNIT,
    ),
    plant(
        "connections-anybody-ends-the-idle",
        AREA,
        "at a full node any new client ends the one that is idle longest",
        (
            GIVING_WAY,
            "        if own is not self._of_protected:\n            return False\n",
            "",
        ),
        kind=Kind.GUARD,
        near=UNIT,
    ),
    plant(
        "connections-busy-before-idle",
        AREA,
        "the connection silent longest is ended, though it waits for an answer",
        (
            GIVING_WAY,
            "key=lambda one: (one.in_flight > 0, one.last_tick)",
            "key=lambda one: one.last_tick",
        ),
        kind=Kind.ORDER,
        near=UNIT,
    ),
    plant(
        "connections-no-place-kept",
        AREA,
        "others fill the places that are kept for operators",
        (
            ADMISSION,
            "        return self.open_count - self.open_at[protected] >= self.most - kept\n",
            "        return self.open_count - self.open_at[protected] >= self.most\n",
        ),
        kind=Kind.GUARD,
        near=UNIT,
    ),
    plant(
        "connections-operators-use-up-addresses",
        AREA,
        "connections of operators are taken off those of their address when they go",
        (
            ADMISSION,
            "        if not self.is_protected(name):\n            self._of_address[address] -= 1\n",
            "        if self._of_address[address]:\n            self._of_address[address] -= 1\n",
        ),
        kind=Kind.CLEARED,
        near=UNIT,
    ),
    plant(
        "connections-override-beside-the-limit",
        AREA,
        "an address with a limit of its own is held to the one of all as well",
        (
            ADMISSION,
            "        elif 0 < limits.connections_per_address_max <= is_open:\n",
            "        if 0 < limits.connections_per_address_max <= is_open:\n",
        ),
        kind=Kind.GUARD,
        near=UNIT,
    ),
    plant(
        "connections-rate-of-the-node-for-operators",
        AREA,
        "what operators open uses up the rate of the others",
        (
            ADMISSION,
            "        if not self.is_protected(name):\n            self._rate.take()\n",
            "        self._rate.take()\n",
        ),
        kind=Kind.GUARD,
        near=UNIT,
    ),
    plant(
        "connections-rate-gathers-for-ever",
        AREA,
        "after a quiet night a flood is let in as fast as it comes",
        (
            RATE,
            "self._left, self._since = min(float(self._rate), self._left + grown), now",
            "self._left, self._since = self._left + grown, now",
        ),
        kind=Kind.RANGE,
        near=UNIT,
    ),
    plant(
        "connections-rate-does-not-wait",
        AREA,
        "a port accepts on, however fast connections come",
        (
            KEEPER,
            "        return not self._admission.wait(listener, self._now())[0]\n",
            "        return True\n",
        ),
        kind=Kind.GUARD,
        near=SOCKETS,
    ),
    plant(
        "connections-changed-listener-limit-is-cached",
        AREA,
        "a listener keeps the limit that it had before it was changed",
        (
            ADMISSION,
            "        self._of_listener = {}\n        for name, rate",
            "        for name, rate",
        ),
        kind=Kind.STALE,
        near=UNIT,
    ),
    plant(
        "connections-place-is-given-twice",
        AREA,
        "a client that has given way is counted out again when it is gone",
        (
            KEEPER,
            "            self._leaving.remove(client)\n        else:\n            self._admission.gone(client.listener_name, client.client_host)\n",
            "            self._leaving.remove(client)\n        self._admission.gone(client.listener_name, client.client_host)\n",
        ),
        kind=Kind.CLEARED,
        near=SOCKETS,
    ),
    plant(
        "connections-given-way-before-it-is-open",
        AREA,
        "a client whose place was taken before it was open stays, uncounted",
        (
            "net/connection.py",
            "        if self.is_closed:\n            self._transport.abort()  # others have got its place before it was open\n",
            "",
        ),
        kind=Kind.ORDER,
        near=SOCKETS,
    ),
    plant(
        "connections-dynamic-limit-is-dropped",
        AREA,
        "the limit of one listener that a tool sets holds for none",
        (
            "node/settings/overlay.py",
            "        else with_listener_limit(now, part.listener, part.field, int(text))\n",
            "        else now\n",
        ),
        kind=Kind.GUARD,
        near=NODE,
    ),
    plant(
        "connections-full-node-forgets-addresses",
        AREA,
        "at a full node an address beyond its limit gets the place of another client",
        (
            ADMISSION,
            "        refusal = None if self.is_protected(name) else self._refusal_of_address(address)\n",
            "        if self._is_full(name):\n            return RefuseKind.TOO_MANY\n        refusal = None if self.is_protected(name) else self._refusal_of_address(address)\n",
        ),
        kind=Kind.ORDER,
        near=(*UNIT, *SOCKETS),
    ),
    plant(
        "connections-place-for-who-is-beyond-its-quota",
        AREA,
        "a client gives way to one that its quota keeps out",
        (
            LISTENER,
            "        if not self._keeper.may_come(name, host):\n",
            "        if not (self._keeper.may_come(name, host) and self._keeper.lets_in(name, host)):\n",
        ),
        kind=Kind.ORDER,
        near=SOCKETS,
    ),
    plant(
        "connections-ended-clients-keep-places",
        AREA,
        "who was ended and does not read why keeps its place for ten seconds",
        (
            "net/connection.py",
            "return self.guard is not None and not self.principal\n",
            "return self.guard is not None and not self.principal and not self.is_closed\n",
        ),
        kind=Kind.GUARD,
        near=SOCKETS,
    ),
    plant(
        "connections-operators-shake-hands-with-the-crowd",
        AREA,
        "handshakes of operators wait for those of a crowd at another listener",
        (
            "net/tls/side.py",
            "            return self.protected_handshakes\n",
            "            return self.handshakes\n",
        ),
        kind=Kind.GUARD,
        near=SOCKETS,
    ),
    plant(
        "connections-addresses-of-ipv4-at-ipv6",
        AREA,
        "limits of an address of IPv4 do not hold at a port of IPv6",
        (
            "net/sockets.py",
            '    return host[len(_MAPPED) :] if host.startswith(_MAPPED) and "." in host else host\n',
            "    return host\n",
        ),
        kind=Kind.GUARD,
        near=SOCKETS,
    ),
    plant(
        "connections-known-clients-count-for-a-second",
        AREA,
        "who has proved who it is counts until the second is over, and a slow one is closed",
        (
            GIVING_WAY,
            "        if table.count_of(address) > most and table.added > most // LOOKS_PER_BOUND:\n",
            "        if table.count_of(address) > most and table.added > 1_000:\n",
        ),
        kind=Kind.STALE,
        near=UNIT,
    ),
    plant(
        "connections-unproven-operators-end-the-idle",
        AREA,
        "who proves nothing at the protected listener ends clients without a bound",
        (
            GIVING_WAY,
            "        if own.count_of() < PROTECTED_PLACES and self._end_idle():\n",
            "        if self._end_idle():\n",
        ),
        kind=Kind.GUARD,
        near=UNIT,
    ),
)
