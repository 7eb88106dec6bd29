"""Chemists' files: queries read from them, answers written to them."""

from __future__ import annotations

from molspec.files.answer import Answer, Answered, Query
from molspec.files.asking import Asked, answer_to, as_asked, ask, check_salts, is_hinted
from molspec.files.forms import FORMS, Form, form_of
from molspec.files.results import ResultFile, ResultStream, is_stream
from molspec.files.sheet import Sheet
from molspec.files.sources import (
    INPUT_FORMS,
    Source,
    find_query_column,
    is_named_as_source,
    open_source,
)

__all__ = [
    "FORMS",
    "INPUT_FORMS",
    "Answer",
    "Answered",
    "Asked",
    "Form",
    "Query",
    "ResultFile",
    "ResultStream",
    "Sheet",
    "Source",
    "answer_to",
    "as_asked",
    "ask",
    "check_salts",
    "find_query_column",
    "form_of",
    "is_hinted",
    "is_named_as_source",
    "is_stream",
    "open_source",
]
