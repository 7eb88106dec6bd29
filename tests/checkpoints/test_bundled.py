import re
from pathlib import Path

import pytest

from molspec import load
from molspec.checkpoints import Checkpoint, CheckpointError, read
from molspec.checkpoints.bundled import bundled_names, locate
from molspec.common.console import quoted
from molspec.text import tokenize
from tests import refused

SMILES = (Path(__file__).parents[1] / "data" / "smiles.txt").read_text().split()


def test_bundled_name_is_preferred_to_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "product").mkdir()
    monkeypatch.chdir(tmp_path)
    assert (locate("product") / "config.json").is_file()
    assert locate("./product") == Path("product")
    assert locate(tmp_path / "product") == tmp_path / "product"


@pytest.mark.parametrize("name", ["prodcut", "", "./retro", "config.json", "C" * 5000, "a\0b"])
def test_unknown_model_is_refused_by_name(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    told = re.escape(f"no model {quoted(name)}: expected product or retro, or the path of a checkp")
    refused(f"^{told}", locate, name)
    refused(CheckpointError, f"^{told}", load, name)
    refused(CheckpointError, "^no model 'product'.* a Path is always a path", load, Path("product"))


@pytest.mark.parametrize("name", bundled_names())
def test_bundled_models_have_a_card_and_a_consistent_vocabulary(name: str) -> None:
    checkpoint: Checkpoint = read(locate(name))
    assert checkpoint.dtype == "float16"
    assert checkpoint.card is not None
    assert checkpoint.card.startswith(f"# {name}\n")
    vocabulary = checkpoint.vocabulary
    for index in set(range(vocabulary.size)) - set(vocabulary.special_ids):
        assert tokenize(vocabulary.tokens[index]) == [vocabulary.tokens[index]]
        assert vocabulary.encode(vocabulary.tokens[index]) == [index]


@pytest.mark.parametrize("beam_size", [5, 10])
def test_exact_beams_take_fewer_passes_with_few_more_nodes(beam_size: int) -> None:
    model = load("retro")
    known = set(model.vocabulary.tokens)
    queries = [s for s in SMILES if "." not in s and known.issuperset(tokenize(s))][:8]
    standard = model.predict(queries, n_best=beam_size, beam="standard")
    exact = model.predict(queries, n_best=beam_size, drafter="tree")
    assert [result.predictions for result in exact] == [r.predictions for r in standard]
    assert exact.statistics.query_calls < 0.45 * standard.statistics.query_calls
    assert exact.statistics.nodes < 1.2 * standard.statistics.nodes
    assert exact.statistics.accepted_tokens > 0
