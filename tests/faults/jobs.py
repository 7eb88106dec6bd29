"""The jobs: commands that must resume after a fault, and the results that they must write."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from molspec import checkpoints
from tests import tiny
from tests.training.tiny import CONFIG, sample_reactions

Contents = dict[str, Any]


@dataclass(frozen=True)
class Job:
    """write_inputs: writes the files that the command reads, in a folder without faults.

    line: the command, with {i} for the folder of inputs and {o} for that of results.
    contents: results that must be the same in the end, however often the job was killed.
    """

    write_inputs: Callable[[Path], None]
    line: str
    contents: Callable[[Path], Contents]

    def arguments(self, inputs: Path, output: Path) -> list[str]:
        return self.line.format(i=inputs, o=output).split()


def _files(folder: Path) -> Contents:
    """Every file and folder, so that a partial file from a kill is found."""
    paths = sorted(folder.rglob("*"))
    return {str(p.relative_to(folder)): p.read_bytes() if p.is_file() else None for p in paths}


def _evaluate_inputs(inputs: Path) -> None:
    checkpoints.write(tiny.checkpoint(), inputs / "model")
    rows = [f"{query}\t{target}" for query, target in zip(tiny.QUERIES, "CX" * 9, strict=False)]
    rows += ["not SMILES\tC", "CO\tCO", "CN\tN"]
    (inputs / "table.tsv").write_text("src\ttgt\n" + "\n".join(rows) + "\n")


def _records(output: Path) -> Contents:
    """The records without times."""
    (file,) = output.iterdir()
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    for line in lines[1:]:
        del line["seconds"], line["statistics"]["seconds"]
    return {"lines": lines}


def _predict_inputs(inputs: Path) -> None:
    checkpoints.write(tiny.checkpoint(), inputs / "model")
    lines = [f"{query} number {i}" for i, query in enumerate([*tiny.QUERIES, "not SMILES"] * 3)]
    (inputs / "queries.smi").write_text("\n".join(lines) + "\n")


def _plan_inputs(inputs: Path) -> None:
    checkpoints.write(replace(tiny.checkpoint(), task="retro"), inputs / "model")
    (inputs / "stock.smi").write_text("CCO ethanol\nCN\n")
    (inputs / "targets.smi").write_text("OCC a\nCCOC(C)=O b\nnot SMILES\nNC c\n")


def _plans(output: Path) -> Contents:
    """Plans and journal without times, and without the bytes, which depend on them."""
    plans, progress = output / "plans.jsonl", output / "plans.jsonl.journal"
    lines = [json.loads(line) for line in plans.read_text().splitlines()]
    for line in lines:
        del line["seconds"], line["first_seconds"]
    settings, last = map(json.loads, progress.read_text().splitlines())
    counts = {name: last[name] for name in ("done", "failed", "refused", "queries")}
    return {"lines": lines, "journal": [settings, counts], "files": sorted(_files(output))}


def _predict_parquet_inputs(inputs: Path) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    checkpoints.write(tiny.checkpoint(), inputs / "model")
    table = pa.table({"id": range(len(tiny.QUERIES)), "smiles": tiny.QUERIES})
    parquet.write_table(table, inputs / "queries.parquet")


def _rows(output: Path) -> Contents:
    """The rows of all files, because Ray gives files new names each time."""
    from pyarrow import dataset

    (folder,) = output.iterdir()
    endings = {path.suffix for path in folder.iterdir()}
    return {"rows": dataset.dataset(folder).to_table().sort_by("id").to_pylist(), "": endings}


def _prepare_inputs(inputs: Path) -> None:
    reactions = sample_reactions(14)
    for name, part in (("a", reactions[:9]), ("b", reactions[8:12]), ("c", reactions[11:])):
        (inputs / f"{name}.smi").write_text("\n".join(part))


def _train_inputs(inputs: Path) -> None:
    from molspec.training import PrepareOptions, prepare

    (inputs / "a.smi").write_text("\n".join(sample_reactions(30)))
    options = PrepareOptions("retro", variants=1, validation_share=0.2)
    prepare([inputs / "a.smi"], inputs / "data", options)
    short = {"steps": 4, "validate_every": 2, "validation_pairs": 2, "decoded_pairs": 1}
    config = {**CONFIG.to_json(), **short}
    (inputs / "config.json").write_text(json.dumps(config))


def _trained(output: Path) -> Contents:
    """Every file without times, which are in the logs, the model card and state.pt."""
    files = _files(output)
    state = torch.load(output / "run" / "state.pt", weights_only=True)["trainer"]
    files["run/state.pt"] = [
        state["step_count"],
        *(v.numpy().tobytes() for v in state["model"].values()),
    ]
    for name in ("log.csv", "validation.csv"):
        rows = [line.split(",") for line in files[f"run/{name}"].decode().splitlines()]
        names = {"minutes", "tokens_per_second"}
        if name == "log.csv":  # the line that was interrupted has lost its loss
            names.add("loss")
        timed = {i for i, cell in enumerate(rows[0]) if cell in names}
        files[f"run/{name}"] = [[c for i, c in enumerate(row) if i not in timed] for row in rows]
    del files["run/model/README.md"]
    return files


JOBS = {
    "evaluate": Job(
        _evaluate_inputs,
        "evaluate {i}/table.tsv --model {i}/model --output {o}/records.jsonl --max-length 20",
        _records,
    ),
    "predict": Job(
        _predict_inputs,
        "predict --input {i}/queries.smi --model {i}/model --output {o}/answers.csv -n 2 "
        "--max-length 20 --batch-size 4",
        _files,
    ),
    "score": Job(
        _evaluate_inputs,
        "score {i}/table.tsv --model {i}/model --output {o}/scores.tsv --batch-size 4",
        _files,
    ),
    "prepare": Job(
        _prepare_inputs,
        "prepare {i}/a.smi --task retro --variants 2 --validation {i}/b.smi --exclude {i}/c.smi "
        "--output {o}/data",
        _files,
    ),
    "train": Job(
        _train_inputs, "train --data {i}/data --config {i}/config.json --output {o}/run", _trained
    ),
}
if find_spec("syntheseus"):
    JOBS["plan"] = Job(
        _plan_inputs,
        "plan -i {i}/targets.smi --stock {i}/stock.smi --model {i}/model --output {o}/plans.jsonl "
        "--expansions 1 -n 2",
        _plans,
    )
if find_spec("ray"):
    JOBS["predict-parquet"] = Job(
        _predict_parquet_inputs,
        "predict-parquet {i}/queries.parquet {o}/answers --model {i}/model --max-length 20",
        _rows,
    )
