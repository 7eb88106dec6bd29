"""molspec's own format, a folder.

config.json        {"format": "molspec", "format_version": 1, "spec": the fields of ModelSpec,
                   "canonical_queries": whether its queries are made canonical, "aligned": whether
                   it was trained on root-aligned SMILES; both false if not given, "task": what it
                   answers; unknown if not given, "template": as of `Checkpoint`, "runs_in": the
                   dtype in which it is best run, by the kind of device, {"cpu": "int8"}; float32 if
                   not given, "fingerprint": of the model without its drafters, compared if given}
model.safetensors  the weights, in the names and shapes of ModelSpec.weight_shapes(); or its parts,
                   model-00001-of-00002.safetensors and so on, whose index, if there is one, is
                   model.safetensors.index.json, as Hugging Face's libraries write them
vocabulary.json    the fields of Vocabulary, or of PieceVocabulary
ngram.bin          optional: the n-gram model of targets
heads.safetensors  optional: draft heads, and in its metadata their spec and the fingerprint of the
                   model that they are of
spec/              optional: a Spec-Drafter, a folder of this format with the same vocabulary, and
                   drafter.json {"k": tokens that it guesses at once, "model": the fingerprint of
                   the model that it is of}
README.md          optional: the model card
"""

import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from molspec.checkpoints import files
from molspec.checkpoints.checkpoint import Checkpoint, CheckpointError
from molspec.common.console import prefixing
from molspec.model.heads import HeadsWeights
from molspec.model.spec import HeadsSpec, ModelSpec
from molspec.model.spec_drafter import SpecDrafterWeights
from molspec.text import PieceVocabulary, Vocabulary
from molspec.text.vocabulary import difference

LOOKS_FOR = "a folder with config.json and model.safetensors"
VERSION = 1

_CONFIG, _WEIGHTS, _VOCABULARY = "config.json", "model.safetensors", "vocabulary.json"
_NGRAM, _CARD = "ngram.bin", "README.md"
_SPEC, _DRAFTER = "spec", "drafter.json"
_HEADS, _HEADS_FORMAT = "heads.safetensors", "molspec-heads"
_FINGERPRINT = "fingerprint"
#: Values of config.json. Another name may be a damaged one of these.
_KNOWN = {"format", "format_version", _FINGERPRINT} | {each.name for each in fields(Checkpoint)}
#: Values of config.json that are false if they are not given.
_FLAGS = ("canonical_queries", "aligned")


def recognises(path: Path) -> bool:
    """Whether `path` is a folder of this format."""
    return (path / _CONFIG).is_file() and bool(files.weight_files(path, _WEIGHTS))


def read(path: Path) -> Checkpoint:
    """Read the folder `path`. Raises ValueError or OSError."""
    config = _read_config(path / _CONFIG)
    ngram, card, heads = path / _NGRAM, path / _CARD, path / _HEADS
    is_own = card.is_file() and card.resolve().parent == (path / _CONFIG).resolve().parent
    vocabulary = files.read_object(path / _VOCABULARY)
    kind = PieceVocabulary if "tokenizer" in vocabulary else Vocabulary
    checkpoint = Checkpoint(
        spec=ModelSpec.from_json(config["spec"]),
        vocabulary=kind.from_json(vocabulary),
        weights=files.load_parts(
            files.weight_files(path, _WEIGHTS) or [path / _WEIGHTS], files.load_weights
        ),
        ngram=ngram.read_bytes() if ngram.exists() else None,
        # The card is for people: a wrong byte in it does not make the model unusable.
        card=card.read_text(encoding="utf-8", errors="replace") if is_own else None,
        task=config.get("task"),
        template=config.get("template"),
        runs_in=config.get("runs_in", {}),
        **{name: config.get(name, False) for name in _FLAGS},
    )
    _check_whole(config, checkpoint)
    if heads.exists():
        checkpoint = replace(checkpoint, heads=_read_heads(heads, checkpoint))
    if (path / _SPEC).exists():
        checkpoint = replace(checkpoint, spec_drafter=_read_spec_drafter(path / _SPEC, checkpoint))
    return checkpoint


def _read_heads(path: Path, of: Checkpoint) -> HeadsWeights:
    """Read draft heads. Raises CheckpointError if they are damaged or of another model."""
    damage = (SafetensorError, ValueError, TypeError, RecursionError)
    with prefixing(f"{path.name} is damaged: ", CheckpointError, damage):
        with safe_open(path, "pt") as stored:
            metadata = json.loads((stored.metadata() or {}).get(_HEADS_FORMAT, "null"))
        if not isinstance(metadata, dict) or not isinstance(metadata.get("spec"), dict):
            raise ValueError(f"it does not say what its {_HEADS_FORMAT} are")
        weights = files.load_weights(path)
        spec = HeadsSpec(**metadata["spec"])
    _check_model(path, "draft heads", metadata, of)
    return HeadsWeights(spec, weights)


def _read_spec_drafter(path: Path, of: Checkpoint) -> SpecDrafterWeights:
    """Read a nested folder. Raises CheckpointError, naming both, for one of another model."""
    damage = (ValueError, KeyError, TypeError)
    with prefixing(f"{path.name} is damaged: ", CheckpointError, damage):
        described = files.read_object(path / _DRAFTER)
        stored = read(path)
        drafter = SpecDrafterWeights(described.get("k", 0), stored.spec, stored.weights)
    if (found := difference(stored.vocabulary.tokens, of.vocabulary.tokens)) is not None:
        raise CheckpointError(
            f"{path.name} has a Spec-Drafter of another vocabulary: {found}; expected the same "
            "tokens in the same order"
        )
    _check_model(path, "a Spec-Drafter", described, of)
    return drafter


def _check_model(path: Path, what: str, described: Mapping[str, Any], of: Checkpoint) -> None:
    """Raise CheckpointError if a drafter was trained for another model."""
    its, own = described.get("model"), of.fingerprint(with_drafters=False)
    if its != own:
        raise CheckpointError(
            f"{path.name} has {what} of the model {its}: expected the model {own}, which is here"
        )


def _read_config(path: Path) -> dict[str, Any]:
    config = files.read_object(path)
    files.check_format(path.name, config, "molspec", VERSION)
    if not isinstance(config.get("spec"), dict):
        raise CheckpointError(f"{path.name} has no spec")
    if unknown := config.keys() - _KNOWN:
        raise CheckpointError(f"{path.name} has unknown values: {', '.join(sorted(unknown))}")
    for key in _FLAGS:
        if not isinstance(config.get(key, False), bool):
            raise CheckpointError(f"{path.name} says {key} {config[key]!r}: expected true or false")
    runs_in = config.get("runs_in", {})
    if not isinstance(runs_in, dict) or not all(isinstance(each, str) for each in runs_in.values()):
        raise CheckpointError(
            f"{path.name} says runs_in {runs_in!r}: expected a dtype by device, as "
            '{"cpu": "int8", "cuda": "bfloat16"}'
        )
    return config


def _check_whole(config: Mapping[str, Any], checkpoint: Checkpoint) -> None:
    """Raise CheckpointError unless the files are those that were written together."""
    if _FINGERPRINT in config and config[_FINGERPRINT] != checkpoint.fingerprint(False):
        raise CheckpointError(
            f"damaged: {_CONFIG}, {_VOCABULARY} and weights do not have the {_FINGERPRINT} that "
            f"was written with them; if they were changed on purpose, take it out of {_CONFIG}"
        )


def write(checkpoint: Checkpoint, destination: str | Path, *, overwrite: bool = False) -> None:
    """Write `checkpoint` to the folder `destination`, completely or not at all.

    Raises CheckpointError if the destination exists, is not this checkpoint already and is not to
    be overwritten, OSError if it cannot be written.
    """
    destination = Path(destination)
    if not overwrite and _holds(destination, checkpoint):
        return
    check_destination(destination, overwrite=overwrite)
    if destination.is_symlink():
        destination = destination.resolve()  # replaces the folder, and keeps the link to it
    destination.parent.mkdir(parents=True, exist_ok=True)
    # Fixed names: the next write removes what a kill has left.
    unfinished = destination.with_name(f".{destination.name}.unfinished")
    replaced = destination.with_name(f".{destination.name}.replaced")
    shutil.rmtree(unfinished, ignore_errors=True)
    try:
        unfinished.mkdir()
        _write_files(checkpoint, unfinished)
        if destination.exists():
            shutil.rmtree(replaced, ignore_errors=True)
            destination.rename(replaced)
        unfinished.rename(destination)
    except OSError as error:  # for example of a removed file
        raise OSError(error.errno, error.strerror, str(destination)) from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
        if replaced.exists() and not destination.exists():  # it failed between the renames
            replaced.rename(destination)
    shutil.rmtree(replaced, ignore_errors=True)


def _holds(folder: Path, checkpoint: Checkpoint) -> bool:
    """Whether an earlier, equal command has written the checkpoint."""
    try:
        stored = read(folder)
    except (CheckpointError, OSError):
        return False
    compared = (
        (each.fingerprint(), each.task, each.aligned, each.runs_in, each.card)
        for each in (stored, checkpoint)
    )
    return next(compared) == next(compared)


def check_destination(destination: Path, *, overwrite: bool = False) -> None:
    """Raise CheckpointError if a checkpoint may not be written to `destination`."""
    if destination.exists() and not (overwrite and recognises(destination)):
        raise CheckpointError(f"{destination}: exists already")


def _write_files(checkpoint: Checkpoint, folder: Path) -> None:
    own = checkpoint.fingerprint(with_drafters=False)
    config = {
        "format": "molspec",
        "format_version": VERSION,
        "task": checkpoint.task,
        **{name: getattr(checkpoint, name) for name in _FLAGS},
        "spec": checkpoint.spec.to_json(),
        **({} if checkpoint.template is None else {"template": checkpoint.template}),
        **({"runs_in": dict(checkpoint.runs_in)} if checkpoint.runs_in else {}),
        _FINGERPRINT: own,
    }
    files.write_object(folder / _VOCABULARY, checkpoint.vocabulary.to_json())
    weights = {name: each.contiguous().clone() for name, each in checkpoint.weights.items()}
    (folder / _WEIGHTS).write_bytes(save(weights))  # save_file would make it unreadable to others
    files.write_object(folder / _CONFIG, config)
    if checkpoint.ngram is not None:
        (folder / _NGRAM).write_bytes(checkpoint.ngram)
    if checkpoint.heads is not None:
        about = {"spec": asdict(checkpoint.heads.spec), "model": own}
        weights = {name: each.contiguous() for name, each in checkpoint.heads.weights.items()}
        # One entry: the order of several would be random.
        (folder / _HEADS).write_bytes(save(weights, {_HEADS_FORMAT: json.dumps(about)}))
    if checkpoint.spec_drafter is not None:
        drafter, nested = checkpoint.spec_drafter, folder / _SPEC
        nested.mkdir()
        _write_files(checkpoint.drafting(drafter), nested)
        files.write_object(nested / _DRAFTER, {"k": drafter.k, "model": own})
    if checkpoint.card is not None:
        (folder / _CARD).write_text(checkpoint.card, encoding="utf-8")
