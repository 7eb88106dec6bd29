"""Chemists' files: queries read from them, answers written to them."""

from molspec.files.answer import Answer, AnswerT, OutputContext, Query
from molspec.files.formats import FORMATS, Format, format_of, table
from molspec.files.lines import COLUMNS, further_columns
from molspec.files.output import ResultFile, ResultStream, is_stream
from molspec.files.places import Reads, check_apart
from molspec.files.predicting import predict, prepare_query, score
from molspec.files.sources import (
    INPUT_FORMATS,
    QueryFiles,
    input_format,
    open_source,
    open_sources,
    query_column,
)

__all__ = [
    "COLUMNS",
    "FORMATS",
    "INPUT_FORMATS",
    "Answer",
    "AnswerT",
    "Format",
    "OutputContext",
    "Query",
    "QueryFiles",
    "Reads",
    "ResultFile",
    "ResultStream",
    "check_apart",
    "format_of",
    "further_columns",
    "input_format",
    "is_stream",
    "open_source",
    "open_sources",
    "predict",
    "prepare_query",
    "query_column",
    "score",
    "table",
]
