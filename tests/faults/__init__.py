"""Faults put in on purpose: a kill or a full disk at every write, memory that is not given.

`python -m tests.faults JOB` makes a job's every fault; `test_faults.py` some of each in the suite.
A command that is to be tried is one more `Job` of `jobs.py`.
"""
