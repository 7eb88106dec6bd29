import json
import warnings
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from itertools import product
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from molspec import load
from molspec.checkpoints import Checkpoint, CheckpointError, read

pytest.importorskip("transformers")


from tests import refused
from tests.checkpoints import damage, twin
from tests.drop_in import hugging_face_models as models

TOKENS = (
    *("<s>", "<pad>", "</s>", "<unk>", "C", "c", "O", "N", "1", "2", "(", ")", "=", "Cl", "Br"),
    *("[nH]", "#", "S", "F"),
)


def template(*ids: int) -> dict[str, Any]:
    """A post-processor that puts the last id after a text, and the other ids before it."""
    special = [{"SpecialToken": {"id": str(index)}} for index in ids]
    return {
        "type": "TemplateProcessing",
        "single": [*special[:-1], {"Sequence": {"id": "A"}}, *special[-1:]],
        "special_tokens": {str(index): {"ids": [index]} for index in ids},
    }


def write(
    folder: Path,
    model: Any,
    vocabulary: str = "tokenizer.json",
    changes: Mapping[str, Any] = MappingProxyType({}),
) -> Path:
    """Writes a model's folder; its vocabulary has one token fewer than the embedding has rows."""
    model.float().save_pretrained(folder)
    ids = {token: index for index, token in enumerate(TOKENS)}
    if vocabulary == "tokenizer.json":
        content: Any = {
            "added_tokens": [{"id": 0, "content": "<s>"}],
            "post_processor": template(0, 2),
            "model": {"type": "WordLevel", "vocab": ids},
        }
        content.update(changes)
    else:
        content = ids
    text = "\n".join(TOKENS) if vocabulary == "vocab.txt" else json.dumps(content)
    (folder / vocabulary).write_text(text)
    return folder


def check_logits(model: Any, checkpoint: Checkpoint) -> None:
    """Checks that the twin's logits match the model's."""
    source = torch.tensor([[0, 4, 5, 6, 7, 2]])
    target = torch.tensor([[model.config.decoder_start_token_id, 6, 4, 9, 10, 5]])
    with torch.no_grad():
        expected: Tensor = model.float()(input_ids=source, decoder_input_ids=target).logits
    actual = twin.twin_logits(checkpoint, source, target)
    torch.testing.assert_close(actual, expected, atol=2e-4, rtol=1e-4)
    assert expected.std() > 0.25


VARIANTS: dict[str, Callable[[], Any]] = {
    "bart": models.bart,
    "bart, untied": lambda: models.bart(tie_word_embeddings=False),
    "bart, scaled": lambda: models.bart(scale_embedding=True, activation_function="relu"),
    "marian": models.marian,
    "marian, separate": lambda: models.marian(
        share_encoder_decoder_embeddings=False, decoder_vocab_size=20, tie_word_embeddings=False
    ),
    "t5": models.t5,
    "t5 v1.1": models.t5_v1_1,
    "umt5": lambda: untie_output(models.made("UMT5", pad_token_id=0, eos_token_id=1)),
    "t5, separate": lambda: untie_output(
        models.t5(num_decoder_layers=1, feed_forward_proj="gated-silu")
    ),
}


def untie_output(model: Any) -> Any:
    """Gives a T5 a separate output layer, as v1.1 has."""
    weight = torch.randn(model.lm_head.weight.shape, generator=torch.Generator().manual_seed(2))
    model.lm_head.weight = torch.nn.Parameter(weight.to(model.lm_head.weight))
    return model


@pytest.mark.parametrize("variant", VARIANTS)
def test_logits_match_transformers(tmp_path: Path, variant: str) -> None:
    model = VARIANTS[variant]()
    if "t5" not in variant:
        model.final_logits_bias.normal_(generator=torch.Generator().manual_seed(1))
    vocabulary = "tokenizer.json" if "bart" in variant else "vocab.json"
    checkpoint = read(write(tmp_path, model, vocabulary))
    check_logits(model, checkpoint)
    tied = torch.equal(model.lm_head.weight, model.get_decoder().embed_tokens.weight)
    assert checkpoint.spec.tied_output == tied


def test_reads_t5_saved_by_older_transformers(tmp_path: Path) -> None:
    """T5 v1.1 from transformers 4: the output is scaled if the embeddings are tied."""
    model = untie_output(models.t5_v1_1())
    folder = write(tmp_path, model, "vocab.json")
    state = load_file(folder / "model.safetensors")
    state["decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"] = torch.ones(
        32, 2
    )
    save_file(state, folder / "model.safetensors")
    values = json.loads((folder / "config.json").read_text())
    for key in ("scale_decoder_outputs", "num_decoder_layers"):
        values.pop(key, None)
    old_values = {"tie_word_embeddings": False, "n_positions": 64}
    (folder / "config.json").write_text(json.dumps({**values, **old_values}))
    checkpoint = read(folder)
    check_logits(model, checkpoint)
    assert checkpoint.spec.max_positions == 64


@pytest.mark.parametrize("ends", ["", "-00001-of-00002 -00002-of-00002"])
def test_reads_pickled_and_wrapped_weights_in_one_file_or_two(tmp_path: Path, ends: str) -> None:
    model = models.bart()
    folder = write(tmp_path, model)
    state = list(load_file(folder / "model.safetensors").items())
    (folder / "model.safetensors").unlink()
    parts = ends.split() or [""]
    for index, end in enumerate(parts):
        part = {f"module._orig_mod.{key}": value for key, value in state[index :: len(parts)]}
        torch.save(part, folder / f"pytorch_model{end}.bin")
    check_logits(model, read(folder))


@pytest.mark.parametrize("vocabulary", ["tokenizer.json", "vocab.json", "vocab.txt"])
def test_reads_every_vocabulary_file(tmp_path: Path, vocabulary: str) -> None:
    found = read(write(tmp_path, models.bart(), vocabulary)).vocabulary
    assert found.tokens == (*TOKENS, "<unused 19>")
    assert (found.pad_id, found.bos_id, found.eos_id, found.unk_id) == (1, 0, 2, 3)


@pytest.mark.parametrize("query", ["<RX_3> C C O", "<RX_3>CCO", "c1cc[nH]c1 [v4]"])
def test_queries_of_whole_words_are_split_as_the_tokenizer_does(tmp_path: Path, query: str) -> None:
    library = pytest.importorskip("tokenizers").Tokenizer
    words = (*TOKENS, "<RX_3>", "[v4]")
    pattern = {"Regex": r"<RX_3>|\[[^\]]+\]|Br|Cl|."}
    split = {"type": "Split", "pattern": pattern, "behavior": "Isolated", "invert": False}
    ids = {word: index for index, word in enumerate(words)}
    steps = {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, split]}
    tokenizer = {
        **dict.fromkeys(("normalizer", "decoder", "post_processor")),
        "version": "1.0",
        "added_tokens": [],
        "pre_tokenizer": steps,
        "model": {"type": "WordLevel", "vocab": ids, "unk_token": "<unk>"},
    }
    folder = write(tmp_path, models.bart(vocab_size=len(words)), changes=tokenizer)
    expected = library.from_str(json.dumps(tokenizer)).encode(query).ids
    assert load(folder).reader.source(query).token_ids == expected


def test_ignores_leftover_weight_files(tmp_path: Path) -> None:
    old_model, model = models.bart(), models.bart(scale_embedding=True)
    torch.save(old_model.state_dict(), tmp_path / "pytorch_model.bin")
    folder = write(tmp_path, model)
    state = {name: value.clone() for name, value in old_model.float().state_dict().items()}
    save_file(state, folder / "model_before.safetensors")
    check_logits(model, read(folder))


def test_start_and_end_tokens_follow_model(tmp_path: Path) -> None:
    bart = read(write(tmp_path / "bart", models.bart())).spec
    assert (bart.start_id, bart.source_bos, bart.source_eos) == (2, True, True)
    assert bart.target_bos  # its labels have BOS and EOS, as its sources do
    begun = models.bart(decoder_start_token_id=0)
    for bias in (-1e4, 1e4):  # of BOS: whether the model writes it behind the start
        begun.final_logits_bias[0, 0] = bias
        bos_start = read(write(tmp_path / f"begun {bias}", begun)).spec
        assert (bos_start.start_id, bos_start.target_bos) == (0, bias > 0)
    marian = read(write(tmp_path / "marian", models.marian(), "vocab.json"))
    assert (marian.spec.start_id, marian.vocabulary.bos_id) == (19, None)
    assert (marian.spec.source_bos, marian.spec.source_eos) == (False, True)
    assert not marian.spec.target_bos
    with torch.device("meta"):
        again = read(tmp_path / "marian")
    assert torch.equal(again.weights["source_positions"], marian.weights["source_positions"])


ROBERTA = {"type": "RobertaProcessing", "sep": ["</s>", 2], "cls": ["<s>", 0]}
#: A post-processor: the ids before and after a text, or the error that names what is unsupported.
POST_PROCESSORS: dict[str, tuple[Any, tuple[list[int], list[int]] | str]] = {
    "nothing": (None, ([], [])),
    "both": (template(0, 2), ([0], [2])),
    "an end": (template(2), ([], [2])),
    "RoBERTa's": (ROBERTA, ([0], [2])),
    "another end": (template(0, 17), r"puts the ids \[0\] before and \[17\] after a text"),
    "BERT's": ({**ROBERTA, "cls": ["[CLS]", 3]}, r"puts the ids \[3\] before and \[2\] after"),
    "another kind": ({"type": "ByteLevel"}, "tokenizer.json has a post_processor 'ByteLevel'"),
    "damage": ({"type": "BertProcessing"}, "tokenizer.json has a damaged post_processor"),
}


@pytest.mark.parametrize("kind", POST_PROCESSORS)
def test_source_gets_special_tokens_of_tokenizer(tmp_path: Path, kind: str) -> None:
    processor, expected = POST_PROCESSORS[kind]
    folder = write(tmp_path, models.bart(), changes={"post_processor": processor})
    if isinstance(expected, str):
        refused(CheckpointError, expected, read, folder)
    else:
        begin, end = expected
        assert load(folder).reader.source("CO").encoder_ids == [*begin, 4, 6, *end]


def test_unsupported_generation_settings_cause_warning(tmp_path: Path) -> None:
    folder = write(tmp_path, models.bart())
    settings = folder / "generation_config.json"
    settings.write_text('{"suppress_tokens": [], "repetition_penalty": 1.0, "min_length": 0}')
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read(folder)
    settings.write_text('{"no_repeat_ngram_size": 3, "num_beams": 5, "max_length": 9}')
    told = "sets no_repeat_ngram_size, num_beams, max_length: molspec ranks by the model"
    with pytest.warns(UserWarning, match=told) as found:
        load(folder)
    assert found[0].filename == __file__


def test_the_generation_config_decides_special_ids(tmp_path: Path) -> None:
    folder = write(tmp_path, models.bart())
    expected, settings = read(folder), folder / "generation_config.json"
    config = json.loads((folder / "config.json").read_text())
    for name, other in product(("decoder_start_token_id", "eos_token_id"), (None, 3)):
        (folder / "config.json").write_text(json.dumps({**config, name: other}))
        with nullcontext() if other is None else pytest.warns(UserWarning, match=f"has {name} 2"):
            made = read(folder)
        assert (made.spec, made.vocabulary) == (expected.spec, expected.vocabulary)
    settings.write_text('{"eos_token_id": [2, 3]}')
    refused(CheckpointError, r"has eos_token_id \[2, 3\]: expected one", read, folder)


def without(file: str) -> Callable[[Path], None]:
    return lambda folder: (folder / file).unlink()


def with_pieces(file: str) -> Callable[[Path], None]:
    """Files of learned pieces in place of a tokenizer."""

    def change(folder: Path) -> None:
        (folder / "tokenizer.json").unlink()
        (folder / file).write_text("C\n##C\n")

    return change


def config(key: str, value: Any) -> Callable[[Path], None]:
    return damage.in_json("config.json", **{key: value})


BART: list[tuple[Callable[[Path], object], str]] = [
    (config("model_type", "led"), r"have model_type 'led' \(only bart, marian, t5, umt5\)"),
    (config("activation_function", "tanh"), "have activation_function 'tanh'"),
    (config("decoder_attention_heads", 4), "attention_heads 2 beside decoder_attention_h"),
    (config("encoder_layers", None), "json lacks encoder_layers"),
    (without("model.safetensors"), "no model.safetensors and no pyt"),
    (without("tokenizer.json"), "no tokenizer.json, vocab.json or voc"),
    (with_pieces("source.spm"), "expected a tokenizer.json, which transformers wri"),
    (with_pieces("vocab.txt"), "expected a tokenizer.json, which transformers wri"),
]
#: An excessive size is refused before its memory is allocated.
MARIAN = [(config("max_position_embeddings", 2**20), "embeddings is 1048576")]
T5 = [
    (
        config("feed_forward_proj", "gated-tanh"),
        "does not have feed_forward_proj 'gated-tanh'; mol",
    ),
    (config("d_ff", None), "config.json lacks d_ff"),
    (config("quantization_config", {"bits": 4}), "quantization_config: expected the model before"),
]


@pytest.mark.parametrize(
    ("kind", "change", "message"),
    [
        (kind, *case)
        for kind, cases in {"bart": BART, "marian": MARIAN, "t5": T5}.items()
        for case in cases
    ],
)
def test_error_names_path_and_cause(
    tmp_path: Path, kind: str, change: Callable[[Path], object], message: str
) -> None:
    vocabulary = "tokenizer.json" if kind == "bart" else "vocab.json"
    folder = write(tmp_path, models.MODELS[kind](), vocabulary)
    change(folder)
    refused(CheckpointError, rf"^{folder}: .*{message}", read, folder)
