"""Checkpoints: one reader a format, file -> Checkpoint, and the writer of molspec's own."""

from dataclasses import replace
from pathlib import Path
from typing import Protocol

from molspec.checkpoints import chemformer, folder, hugging_face, lightning, opennmt
from molspec.checkpoints.checkpoint import DTYPES, Checkpoint, CheckpointError
from molspec.checkpoints.folder import write
from molspec.common.task import Task

__all__ = ["DTYPES", "Checkpoint", "CheckpointError", "convert", "read", "write"]


class _Format(Protocol):
    LOOKS_FOR: str

    def recognises(self, path: Path) -> bool: ...

    def read(self, path: Path) -> Checkpoint: ...


_FORMATS: tuple[_Format, ...] = (hugging_face, folder, chemformer, lightning, opennmt)

#: The beginning of a file that Git LFS has not fetched; the files of an adapter
#: (adapter_config.json, adapter_model.safetensors), and of a sharded training.
_POINTER = b"version https://git-lfs"
_ADAPTER = "adapter_[cm]o*"
_DEEPSPEED = "*mp_rank_*_model_states.pt"
#: Raised by readers, anywhere in a file, for values of another type than the format has.
_OF_DAMAGE = (ArithmeticError, AttributeError, LookupError, RecursionError, RuntimeError, TypeError)


def read(path: str | Path, vocabulary: Path | None = None) -> Checkpoint:
    """Read the checkpoint at `path`, whatever its format.

    vocabulary: the file of a Chemformer's vocabulary, if there are several beside it.

    Raises CheckpointError, naming `path` and the fault.
    """
    path = Path(path)
    try:
        return _read(path, vocabulary)
    except OSError as error:
        name = Path(error.filename).name if error.filename else path.name
        raise CheckpointError(f"{path}: {name}: {error.strerror or error}") from error
    except ValueError as error:
        raise CheckpointError(f"{path}: {error}") from error
    except _OF_DAMAGE as error:
        raise CheckpointError(f"{path}: damaged: {type(error).__name__}: {error}") from error


def _read(path: Path, vocabulary: Path | None) -> Checkpoint:
    if not path.exists():
        raise CheckpointError("no such file or folder")
    if (path / "state.pt").is_file():
        unfinished = "it has no model yet; the command that began it resumes it"
        model = path / "model"
        cure = f"its model is {model}" if model.is_dir() else unfinished
        raise CheckpointError(f"a training; {cure}")
    for file in (*path.iterdir(), *(path / "spec").glob("*")) if path.is_dir() else [path]:
        if file.exists() and not file.is_file() and not file.is_dir():
            raise CheckpointError(f"{file.name} is a pipe or a device: expected a file")
        if file.is_file():
            with file.open("rb") as stream:
                if stream.read(len(_POINTER)) == _POINTER:
                    raise CheckpointError(f"{file.name} is a pointer; `git lfs pull` gets the file")
    if adapters := sorted(file.name for file in path.glob(_ADAPTER)):
        raise CheckpointError(
            f"{adapters[0]} is of an adapter, which changes its model: expected the merged model, "
            "as merge_and_unload() of PEFT makes it, without the adapter beside it"
        )
    if any(path.glob(_DEEPSPEED)) or any(path.glob(f"*/{_DEEPSPEED}")):
        raise CheckpointError("a folder of DeepSpeed: expected the one file of zero_to_fp32.py")
    if vocabulary is not None:
        if not lightning.recognises(path):
            raise CheckpointError(f"vocabulary is {str(vocabulary)!r}: expected a Chemformer")
        return chemformer.read(path, vocabulary)
    for form in _FORMATS:
        if form.recognises(path):
            return form.read(path)
    looked_for = "; ".join(form.LOOKS_FOR for form in _FORMATS)
    raise CheckpointError(f"no checkpoint in it; looked for {looked_for}")


def convert(
    source: str | Path,
    destination: str | Path,
    dtype: str | None = None,
    vocabulary: Path | None = None,
    template: str | None = None,
    task: Task | None = None,
    decoder_layers: int | None = None,
) -> Checkpoint:
    """Write the checkpoint at `source` to the folder `destination`, rounded to `dtype` if given.

    vocabulary: as of `read`. template, task: in place of the checkpoint's own. decoder_layers: the
    number of first layers to write, as `Checkpoint.first_layers` does.

    Returns the written checkpoint. Raises ValueError for a dtype that is not one of DTYPES, or if
    the model has no more layers than are to be written, CheckpointError if the source is broken or
    the destination exists and is another, OSError if it cannot be written.
    """
    folder.check_destination(Path(destination), overwrite=True)  # or it may be this one
    checkpoint = read(source, vocabulary)
    if template is not None:
        checkpoint = replace(checkpoint, template=template)
    if task is not None:
        checkpoint = replace(checkpoint, task=task)
    if decoder_layers is not None:
        checkpoint = checkpoint.first_layers(decoder_layers)
    if dtype is not None:
        checkpoint = checkpoint.to(dtype)
    write(checkpoint, destination)
    return checkpoint
