"""Hypothesis without time limits: a slow machine is not a failure. Timings go into benchmarks."""

import hypothesis

hypothesis.settings.register_profile(
    "no-deadline", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("no-deadline")
