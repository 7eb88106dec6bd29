from dataclasses import replace
from pathlib import Path

import pytest

import molspec
from molspec import checkpoints
from molspec.checkpoints import bundled
from molspec.commands import description
from molspec.engine import ops
from tests import refused, tiny


@pytest.mark.parametrize(("name", "size"), [("product", "7.5"), ("retro", "5.3")])
def test_a_bundled_model_is_described(name: str, size: str) -> None:
    inner = {"product": 1024, "retro": 512}[name]
    lines = dict(line.split(maxsplit=1) for line in description.model(name).splitlines())
    assert lines["model"] == name
    assert Path(lines["path"]) == bundled.locate(name)
    assert lines["parameters"] == f"{size} million, float16"
    assert description.model(name).splitlines()[3] == "runs in     int8 on cpu, bfloat16 on cuda"
    assert lines["layers"] == "4 encoder, 4 decoder, post-norm, relu"
    assert lines["width"] == f"256, 8 heads, feed-forward {inner}"
    assert lines["longest"] == "512 positions, sinusoidal"
    assert lines["vocabulary"] == f"{checkpoints.read(lines['path']).vocabulary.size} tokens"
    assert lines["card"].startswith("Predicts the ")


def test_a_card_summary_skips_a_leading_table(tmp_path: Path) -> None:
    card = "# mine\n\n| | |\n|---|---|\n| Input | SMILES |\n\nOf one evening.\n"
    checkpoints.write(replace(tiny.checkpoint(), card=card), tmp_path / "model")
    assert description.model(str(tmp_path / "model")).endswith("card        Of one evening.")


def test_every_model_of_an_ensemble_is_described(tmp_path: Path) -> None:
    for name, seed in (("a", 1), ("b", 2)):
        runs_in = {"cpu": "int8", "cuda": "bfloat16"} if name == "a" else {"cpu": "int8"}
        made = replace(tiny.checkpoint(seed), card=name, runs_in=runs_in)
        checkpoints.write(made, tmp_path / name)
    name = f"{tmp_path / 'a'}+{tmp_path / 'b'}"
    head, *parts = description.model(name).split("\n\n")
    assert head.startswith(f"model       {name}, 2 models: probabilities averaged\n")
    assert head.endswith("\nruns in     int8 on cpu, float32 on cuda")
    assert parts == [description.model(str(tmp_path / each)) for each in "ab"]
    refused("cannot be averaged", description.model, "retro+product")


def test_the_installation_is_described() -> None:
    text = description.installation()
    assert text.startswith(f"molspec     {molspec.__version__}\n")
    assert "torch 2." in text
    kernels = f"kernels for {ops.instruction_set()}"
    assert text.splitlines()[2].partition(", as ")[0].endswith(kernels)
    assert text.splitlines()[3].startswith("cuda        ")
    assert text.splitlines()[4] == "models      product, retro"
