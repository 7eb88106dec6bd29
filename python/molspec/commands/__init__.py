"""The command line: one module a group of commands, and what they share.

What needs torch is imported where it is used: `molspec --help` is to answer at once.
"""
