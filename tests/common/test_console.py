"""What a command prints."""

import os
import subprocess
import sys


def test_a_line_to_standard_error_is_one_write() -> None:
    """Then the lines of processes that share it do not mix."""
    ours, theirs = os.pipe2(os.O_DIRECT)  # a read gets one write
    command = "from molspec.common.console import print_err; print_err('one  line' + 'e' * 300)"
    subprocess.run([sys.executable, "-c", command], stderr=theirs, check=True)
    os.close(theirs)
    with open(ours, "rb", buffering=0) as reader:
        assert reader.read(1 << 16) == b"molspec: one line%s...%s\n" % (b"e" * 76, b"e" * 80)
