"""Injected faults: a kill or a full disk at every write, and refused memory.

`python -m tests.faults JOB` injects every fault of a job; in the suite, `test_faults.py` injects
some. To test another command, add a `Job` to `jobs.py`.
"""
