"""The command line: one module for each group of commands, and their shared parts.

torch is imported only where it is used, so that `molspec --help` is quick.
"""
