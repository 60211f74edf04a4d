"""Hypothesis without time limits: a slow machine is not a failure."""

import hypothesis

hypothesis.settings.register_profile("no-deadline", deadline=None)
hypothesis.settings.load_profile("no-deadline")
