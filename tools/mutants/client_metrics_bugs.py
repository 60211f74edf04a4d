"""Planted bugs of client metrics: who may push when, what is unpacked, what is told (ADR 0156)."""

# ruff: noqa: E501  the text of the source, as it stands there

from .mutant import Kind, plant

AREA = "Client metrics"
INSTANCES, SUBSCRIPTIONS = "telemetry/instances.py", "telemetry/subscriptions.py"
POINTS, SINK = "telemetry/points.py", "broker/audit/client_metrics.py"
OF_INSTANCES = ("tests/telemetry/test_instances.py",)
OF_SUBSCRIPTIONS = ("tests/telemetry/test_subscriptions.py",)
OF_POINTS = ("tests/telemetry/test_points.py",)
OF_ROWS = ("tests/telemetry/test_rows.py",)
LIVE = ("tests/kafka/test_client_metrics.py",)

MUTANTS = (
    plant(
        "metrics-refused-push-puts-off-the-next",
        AREA,
        "a client that comes early again and again never pushes",
        (
            INSTANCES,
            "        elif not is_last:\n            raise EarlyRequest",
            "        elif not is_last:\n            self.pushed_ms = now_ms\n            raise EarlyRequest",
        ),
        kind=Kind.CLEARED,
        near=OF_INSTANCES,
    ),
    plant(
        "metrics-one-question-permits-pushes-for-ever",
        AREA,
        "a client that has asked once pushes as often as it likes",
        (INSTANCES, "            self.may_push = False\n", ""),
        kind=Kind.CLEARED,
        near=OF_INSTANCES,
    ),
    plant(
        "metrics-early-push-of-something-else-is-told-as-such",
        AREA,
        "pushes with wrong numbers are a way around the interval",
        (
            INSTANCES,
            "        elif not is_last:\n",
            "        elif not is_last and subscription_id == self.asked.subscription_id:\n",
        ),
        kind=Kind.GUARD,
        near=OF_INSTANCES,
    ),
    plant(
        "metrics-error-permits-asking-for-ever",
        AREA,
        "after one refused push a client may ask without an interval",
        (INSTANCES, "        self.may_ask = False\n", ""),
        kind=Kind.CLEARED,
        near=OF_INSTANCES,
    ),
    plant(
        "metrics-any-change-lets-everybody-in-at-once",
        AREA,
        "a change for others resets the interval of all clients",
        (INSTANCES, "        if asked != found.asked:\n", "        if True:\n"),
        kind=Kind.GUARD,
        near=OF_INSTANCES,
    ),
    plant(
        "metrics-used-instances-give-way",
        AREA,
        "the oldest instance is forgotten, however often it is here",
        (INSTANCES, "        self._by_id.move_to_end(given)\n", ""),
        kind=Kind.CLEARED,
        near=OF_INSTANCES,
    ),
    plant(
        "metrics-number-depends-on-the-order",
        AREA,
        "a client that goes to another broker is asked to ask again",
        (SUBSCRIPTIONS, "    names = tuple(sorted(metrics))\n", "    names = tuple(metrics)\n"),
        kind=Kind.ORDER,
        near=OF_SUBSCRIPTIONS,
    ),
    plant(
        "metrics-number-without-its-sign",
        AREA,
        "numbers above 2^31 can not be encoded",
        (SUBSCRIPTIONS, "own - (1 << 32) if own >> 31 else own", "own"),
        kind=Kind.RANGE,
        near=OF_SUBSCRIPTIONS,
    ),
    plant(
        "metrics-pattern-matches-a-part",
        AREA,
        "client_id=app is asked of app-1, too",
        (SUBSCRIPTIONS, "pattern.fullmatch(client[name])", "pattern.match(client[name])"),
        kind=Kind.RANGE,
        near=OF_SUBSCRIPTIONS,
    ),
    plant(
        "metrics-resource-behind-its-metrics-is-lost",
        AREA,
        "a client that writes the resource last has no group in its rows",
        (
            POINTS,
            "    for number, at, after in each_field(data, start, end):\n        yield _steps(at, after) if number == RESOURCE else 1\n        if number == RESOURCE:",
            "    for number, at, after in each_field(data, start, end):\n        yield _steps(at, after) if number == RESOURCE else 1\n        if number == SCOPE_METRICS:\n            break\n        if number == RESOURCE:",
        ),
        kind=Kind.ORDER,
        near=OF_POINTS,
    ),
    plant(
        "metrics-steps-without-a-bound",
        AREA,
        "a megabyte of empty fields takes the loop for a second",
        (POINTS, "number > STEPS_MAX or points", "points"),
        kind=Kind.GUARD,
        near=OF_POINTS,
    ),
    plant(
        "metrics-large-metric-is-one-step",
        AREA,
        "eight metrics of four milliseconds are read in one turn of the loop",
        (
            POINTS,
            "        yield _steps(at, after) if number == METRICS else 1\n",
            "        yield 1\n",
        ),
        kind=Kind.RANGE,
        near=OF_POINTS,
    ),
    plant(
        "metrics-ratio-is-not-asked",
        AREA,
        "a small bomb takes as much memory as the largest push",
        (SINK, "Bounds(self.bytes_max, RATIO_MAX, ratio", "Bounds(self.bytes_max, 1 << 20, ratio"),
        kind=Kind.GUARD,
        near=LIVE,
    ),
    plant(
        "metrics-half-a-push-is-taken",
        AREA,
        "rows of a push that is refused are written",
        (
            SINK,
            "                rows.append(writer.row(step))\n",
            "                rows.append(writer.row(step))\n                self._rows.wait(rows[-1])\n",
        ),
        kind=Kind.ORDER,
        near=LIVE,
    ),
    plant(
        "metrics-refused-rows-stay-in-the-budget",
        AREA,
        "memory of clients is used up by pushes that were refused",
        (SINK, "            self._building_bytes -= size\n", "            pass\n"),
        kind=Kind.CLEARED,
        near=LIVE,
    ),
    plant(
        "metrics-written-rows-stay-in-the-budget",
        AREA,
        "after 8 MiB no row finds room any more",
        (SINK, "        self._waiting_bytes -= sum(", "        self._waiting_bytes -= 0 * sum("),
        kind=Kind.CLEARED,
        near=LIVE,
    ),
    plant(
        "metrics-a-batch-a-tick",
        AREA,
        "a push of thousands of rows waits a second for each two hundred",
        (SINK, "        self._broker.scheduler.call_soon(self._rows.write)\n", ""),
        kind=Kind.CLEARED,
        near=LIVE,
    ),
    plant(
        "metrics-changed-question-is-not-seen",
        AREA,
        "what operators change has no effect before a restart",
        (
            SINK,
            "        self._is_stale = True\n\n    def expire",
            "        self._is_stale = False\n\n    def expire",
        ),
        kind=Kind.CLEARED,
        near=LIVE,
    ),
    plant(
        "metrics-deltas-do-not-add-up",
        AREA,
        "penstock audit metrics tells the last difference as the whole",
        ("telemetry/series.py", 'if point.temporality == "delta":', 'if point.temporality == "":'),
        kind=Kind.GUARD,
        near=OF_ROWS,
    ),
    plant(
        "metrics-late-row-counts-as-the-newest",
        AREA,
        "a gauge is told as it was before, if rows are read in another order",
        ("telemetry/series.py", "known.time_ms > new.time_ms", "known.time_ms < new.time_ms"),
        kind=Kind.ORDER,
        near=OF_ROWS,
    ),
)
