"""Tiny random models of the installed OpenNMT-py (1.x to 3.x), saved with its own saver."""

import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import pytest
import torch
from torch import Tensor, nn

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # the libraries are older than this torch
    onmt = pytest.importorskip("onmt", reason="OpenNMT-py is not installed")
    from onmt import opts
    from onmt.inputters import inputter
    from onmt.model_builder import build_base_model
    from onmt.models import model_saver
    from onmt.utils.parse import ArgumentParser

#: Versions 1 and 2 use torchtext fields and put the batch after the positions; 3 does neither.
MAJOR = int(onmt.__version__.split(".")[0])
SPECIAL = ("<unk>", "<blank>", "<s>", "</s>")
SHARED = tuple("CcON1()=")
#: A target vocabulary with other tokens than the source's.
TARGET = (*SHARED[:-1], "Br")
WIDTH = 16

Shared = Literal["embedding", "vocabulary", "nothing"]


class Library:
    """A model of the library.

    Source and target share the embedding, only the vocabulary, or nothing; `options` are flags of
    the library's training command.
    """

    def __init__(self, shared: Shared, *options: str) -> None:
        same_vocabulary = shared != "nothing"
        self._vocabularies = _vocabularies(
            SHARED, SHARED if same_vocabulary else TARGET, same_vocabulary
        )
        self.options = _options(shared == "embedding", options)
        arguments = (False,) if MAJOR < 3 else ()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            built: Any = build_base_model(self.options, self._vocabularies, *arguments)
        self.model = built.eval()
        generator = torch.Generator().manual_seed(1)
        for parameter in self.model.parameters():
            is_matrix = parameter.dim() > 1
            std = 1.5 / parameter.shape[1] ** 0.5 if is_matrix else 0.2
            nn.init.normal_(parameter, 0.0 if is_matrix else 0.5, std, generator=generator)

    def tokens(self, side: str) -> tuple[str, ...]:
        """The tokens of one side, in the order of their ids."""
        vocabulary = self._vocabularies[side]
        if MAJOR < 3:
            return tuple(vocabulary.base_field.vocab.itos)
        return tuple(vocabulary.ids_to_tokens)

    def log_probs(self, source: Sequence[str], target: Sequence[str]) -> Tensor:
        """Log-probabilities [position, token] after BOS and each token of the target."""
        source_ids = [self.tokens("src").index(token) for token in source]
        target_ids = [self.tokens("tgt").index(token) for token in ("<s>", *target, "</s>")]
        batch_dim = 1 if MAJOR < 3 else 0
        columns = [torch.tensor(ids)[:, None] for ids in (source_ids, target_ids)]
        inputs = [column.unsqueeze(batch_dim) for column in columns]
        with torch.no_grad():
            hidden, _ = self.model(*inputs, torch.tensor([len(source_ids)]))
            logits: Tensor = self.model.generator(hidden.squeeze(batch_dim))
        return logits.log_softmax(dim=-1)

    def save(self, folder: Path) -> Path:
        """Writes a checkpoint as the library's training does."""
        saver = model_saver.build_model_saver(
            self.options, self.options, self.model, self._vocabularies, _Optimiser(),
            *((0,) if MAJOR == 3 else ()),
        )  # fmt: skip
        saver.base_path = str(folder / "model")
        saver.save(1)
        return folder / "model_step_1.pt"


class _Optimiser:
    def state_dict(self) -> dict[str, Any]:
        return {}


def _options(shared_embedding: bool, options: Sequence[str]) -> Any:
    parser = ArgumentParser()
    opts.train_opts(parser)
    if MAJOR == 1:
        opts.model_opts(parser)
    width = "--hidden_size" if MAJOR == 3 else "--rnn_size"
    arguments = [
        *("-data", "x", "--encoder_type", "transformer", "--decoder_type", "transformer"),
        *("--enc_layers", "2", "--dec_layers", "2", width, str(WIDTH)),
        *("--word_vec_size", str(WIDTH), "--heads", "2", "--transformer_ff", "24"),
        *("--dropout", "0", "--attention_dropout", "0", "--save_model", "x"),
    ]
    if MAJOR > 1:
        arguments += ["-src_vocab", "x"]
    if "--max_relative_positions" not in options:
        arguments += ["--position_encoding"]
    if shared_embedding:
        arguments += ["--share_embeddings", *(["--share_vocab"] if MAJOR > 1 else [])]
    parsed, _ = parser.parse_known_args([*arguments, *options])
    ArgumentParser.update_model_opts(parsed)
    return parsed


def _vocabularies(source: Sequence[str], target: Sequence[str], shared: bool) -> Any:
    if MAJOR == 3:
        import pyonmttok

        first, second = (
            pyonmttok.build_vocab_from_tokens(
                list(tokens), maximum_size=0, special_tokens=list(SPECIAL)
            )
            for tokens in (source, target)
        )
        sides = {"src": first, "tgt": first if shared else second}
        return {**sides, "src_feats": [], "data_task": "seq2seq", "decoder_start_token": "<s>"}
    no_features = (0, 0) if MAJOR == 1 else (None, None)
    fields = inputter.get_fields("text", *no_features)
    counters = {"src": Counter(source), "tgt": Counter(target), "corpus_id": Counter()}
    inputter._build_fields_vocab(fields, counters, "text", shared, 1, 99, 0, 99, 0)
    return fields
