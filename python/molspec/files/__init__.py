"""Chemists' files: queries read from them, answers written to them."""

from __future__ import annotations

from molspec.files.answer import Answer, Answered, Query
from molspec.files.asking import ask
from molspec.files.forms import FORMS, Form, form_of
from molspec.files.results import ResultFile, ResultStream, is_stream
from molspec.files.sheet import Sheet
from molspec.files.sources import INPUT_FORMS, Source, is_named_as_source, open_source

__all__ = [
    "FORMS",
    "INPUT_FORMS",
    "Answer",
    "Answered",
    "Form",
    "Query",
    "ResultFile",
    "ResultStream",
    "Sheet",
    "Source",
    "ask",
    "form_of",
    "is_named_as_source",
    "is_stream",
    "open_source",
]
