"""Settings of the whole suite."""

from __future__ import annotations

import os

from hypothesis import settings

# Of this process, before torch is imported, and of those that tests start: where cores are busy,
# torch's threads spin for three times the processor time that one thread takes.
os.environ["OMP_NUM_THREADS"] = "1"

# The same examples every time, and no verdict on speed: the suite is deterministic.
settings.register_profile("molspec", derandomize=True, deadline=None, max_examples=60)
settings.load_profile("molspec")
