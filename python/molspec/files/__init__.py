"""Chemists' files: queries read from them, answers written to them."""

from molspec.files.answer import (
    Answer as Answer,
    AnswerT as AnswerT,
    OutputContext as OutputContext,
    Query as Query,
)
from molspec.files.formats import FORMATS as FORMATS, Format as Format, format_of as format_of
from molspec.files.lines import COLUMNS as COLUMNS, further_columns as further_columns
from molspec.files.output import (
    ResultFile as ResultFile,
    ResultStream as ResultStream,
    is_stream as is_stream,
)
from molspec.files.places import Reads as Reads, check_apart as check_apart
from molspec.files.predicting import predict as predict, prepare_query as prepare_query
from molspec.files.sources import (
    INPUT_FORMATS as INPUT_FORMATS,
    QueryFiles as QueryFiles,
    input_format as input_format,
    open_source as open_source,
    open_sources as open_sources,
    query_column as query_column,
)
