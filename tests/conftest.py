"""Settings of the whole suite."""

from __future__ import annotations

from hypothesis import settings

# The same examples every time, and no verdict on speed: the suite is deterministic.
settings.register_profile("molspec", derandomize=True, deadline=None, max_examples=60)
settings.load_profile("molspec")
