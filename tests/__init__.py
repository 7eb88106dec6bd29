"""The tests, and a call that most of them make."""

from typing import Any


def refused(*call: Any, **options: Any) -> None:
    """Calls a function, which must raise a ValueError, or the error that stands first.

    Then come the pattern of its text, the function and its arguments.
    """
    import pytest  # benchmarks, which read tests.reference, do without

    error, *rest = call if isinstance(call[0], type) else (ValueError, *call)
    message, function, *arguments = rest
    with pytest.raises(error, match=message):
        function(*arguments, **options)
