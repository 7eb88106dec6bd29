"""Flags that several commands share."""

from dataclasses import MISSING, asdict, dataclass
from typing import Any, Literal

from molspec.commands.command import argument
from molspec.common.console import STANDARD, print_err, quoted
from molspec.common.fields import setting
from molspec.planners.common import ABOUT, COMMON

TABLES = argument(
    "Queries and targets: .tsv or .csv, a header; or a file of queries and one of their targets, "
    "line by line; .gz or .xz too.",
    metavar="TABLE",
)
PROCESSES = setting(
    "1", "Processes that share the model, or the GPU; all: one for each core.", metavar="N"
)
QUERY_COLUMN = setting(None, "Query column; by default the task's, src or query.")
TARGET_COLUMN = setting(None, "Target column; by default the task's, tgt or target.")
RAW = setting(False, "List the beam as it is, with duplicates and invalid answers.")
COPY_COLUMN = setting(None, "Copy this column of the input to the output; may be repeated.")
DEUTERIUM = setting(False, "Read deuterium of queries as hydrogen if the model lacks it.")
TRAINING_OUTPUT = setting(MISSING, "Output folder; an interrupted run resumes.")


@dataclass(frozen=True)
class ModelFlags:
    """The model, its device and its precision."""

    model_name: str = setting(
        "product",
        "product, retro, or the path of a checkpoint; several, or A+B, are averaged.",
        flags=("--model", "-m"),
        joint="+",
    )
    device: str = setting("cpu", "cpu; cuda, or cuda:1 for the second; auto: cuda if it works.")
    dtype: str | None = setting(
        None,
        "float32 (PyTorch's own answers), bfloat16 or int8 (CPU); by default the model's: of "
        "product and retro int8, on cuda bfloat16; of others float32.",
    )
    threads: int = setting(1, "Threads on the CPU; answers do not change.")


#: Names of standard output.
_STANDARD_OUTPUTS = ("/dev/stdout", "/dev/fd/1", "/proc/self/fd/1")
InputForm = Literal["smi", "csv", "tsv", "sdf", "rxn"]
OutputForm = Literal["text", "jsonl", "csv", "tsv", "smi", "rsmi", "sdf", "html"]


@dataclass(frozen=True)
class InputFlags:
    """The source of queries."""

    input_names: list[str] | None = setting(
        None,
        "Queries: .smi, .csv, .tsv, .sdf, .rxn; .gz or .xz too; - is stdin. May be repeated.",
        flags=("--input", "-i"),
    )
    input_form: InputForm | None = setting(
        None, "Input format; by default from the input's name.", flags=("--input-format",)
    )
    column: str | None = setting(
        None, "Column of SMILES; by default smiles, query, src or the task's."
    )
    id_column: str | None = setting(
        None, "Column, or SDF field, of identifiers; by default id or name."
    )
    keep_salts: bool = setting(
        False, "Decode salts and mixtures whole; retro removes counter-ions."
    )
    deuterium_as_hydrogen: bool = DEUTERIUM

    @property
    def reading(self) -> dict[str, Any]:
        """The arguments of what reads a query, and the settings of a job that does."""
        names = ("keep_salts", "deuterium_as_hydrogen")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True)
class StockFlags:
    """The stock, and its columns if it is a table."""

    stock: list[str] | None = setting(
        None,
        "Purchasable molecules: a file of SMILES and names, or a table; may be repeated. By "
        "default common, molecules common in patents, which may stand beside files.",
    )
    match: Literal["exact", "inchikey", "no-stereo", "tautomer"] | None = setting(
        None,
        "How molecules match the stock: exact (canonical SMILES), inchikey, no-stereo (InChIKey "
        "without stereo), tautomer. By default exact; inchikey for InChIKeys.",
    )
    stock_column: str | None = setting(
        None, "The stock's column of SMILES or InChIKeys; found if not given."
    )
    stock_id_column: str | None = setting(
        None, "The stock's column, or SDF field, of names; by default id or name."
    )
    stock_price_column: str | None = setting(
        None, "The stock's column of prices; by default price, ppg, price_per_gram or cost."
    )

    @property
    def files(self) -> list[str]:
        """The files among them."""
        return [each for each in self.stock or () if each != COMMON]

    def arguments(self) -> dict[str, Any]:
        """The arguments of `read_stock`. Raises ValueError for a column where no file is."""
        given = asdict(self)
        for name, value in given.items():
            if "column" in name and value is not None and not self.files:
                raise ValueError(f"{name} is {quoted(value)}: expected none without --stock FILE")
        return {"paths": given.pop("stock") or [COMMON], **given}

    def tell(self) -> None:
        """Print what `common` is, if it is used."""
        if self.stock is None or COMMON in self.stock:
            files = f"joined with {', '.join(self.files)}" if self.files else "--stock replaces it"
            print_err(f"the stock is {COMMON}, molecules {ABOUT}; {files}")


#: The description and the names of an output's format.
FORMAT = "Output format; by default from the output's name, else text."
FORMAT_FLAGS = ("--format", "-f")


@dataclass(frozen=True)
class OutputFlags:
    """The output and its format."""

    output_name: str = setting(
        STANDARD,
        "Output file; an interrupted run resumes. - writes to stdout.",
        flags=("--output", "-o"),
    )
    output_form: OutputForm | None = setting(None, FORMAT, flags=FORMAT_FLAGS)
    overwrite: bool = setting(False, "Start again and replace an output that exists.")

    def __post_init__(self) -> None:
        if self.output_name in _STANDARD_OUTPUTS:  # which may be a file, that would be replaced
            object.__setattr__(self, "output_name", STANDARD)


@dataclass(frozen=True)
class PredictionFlags(OutputFlags):
    """The output of predictions, and the spelling of answers."""

    as_written: bool = setting(False, "Write answers in the model's own spelling.")
