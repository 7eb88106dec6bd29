"""One interface to every peer: SMILES in, the best n SMILES of each out.

A peer's library is imported in its constructor, so that a process loads that peer only. `SETTINGS`
lists the settings. The thread count is set in the environment, too, before any import.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from peering import search
from peering.text import Text

Answers = list[list[str]]
#: Answers with their log-probs.
Scored = list[list[tuple[str, float]]]


class Peer(ABC):
    """An engine with a loaded model, made from a converted model's folder and a setting."""

    def __init__(self, folder: Path, setting: str, threads: int) -> None:
        self.folder = folder
        self.setting = setting
        self.threads = threads

    @abstractmethod
    def answer(self, queries: Sequence[str], n_best: int) -> Answers:
        """The n_best answers of every query, best first, all queries in one batch."""

    @abstractmethod
    def scored(self, queries: Sequence[str], n_best: int) -> Scored:
        """As `answer`, for n_best of at least two, each with the sum of its tokens' log-probs."""


class Molspec(Peer):
    """molspec; settings are a dtype, and a drafter if it is not the default."""

    def __init__(self, folder: Path, setting: str, threads: int) -> None:
        super().__init__(folder, setting, threads)
        import torch

        import molspec

        torch.set_num_threads(threads)
        molspec.set_num_threads(threads)
        dtype, _, drafter = setting.partition(" ")
        self._options: dict[str, Any] = {"canonical_queries": False}  # as for the peers
        if drafter == "none":
            self._options["drafter"] = "none"
        elif drafter:
            self._options["node_budget"] = int(drafter)
        self._model = molspec.load(folder / "molspec", dtype=dtype)

    def answer(self, queries: Sequence[str], n_best: int) -> Answers:
        return _texts(self.scored(queries, n_best))

    def scored(self, queries: Sequence[str], n_best: int) -> Scored:
        results = self._model.predict(
            queries, n_best=n_best, batch_size=len(queries), **self._options
        )
        return [[(each.smiles, each.log_prob) for each in result.predictions] for result in results]


class CTranslate2(Peer):
    """Settings are compute types, and "mkl", set through the environment (`SETTINGS`)."""

    def __init__(self, folder: Path, setting: str, threads: int) -> None:
        super().__init__(folder, setting, threads)
        import ctranslate2

        self._text = Text(folder)
        self._translator = ctranslate2.Translator(
            str(folder / "ctranslate2"),
            compute_type=setting.split()[0],
            intra_threads=threads,
            inter_threads=1,
        )

    def answer(self, queries: Sequence[str], n_best: int) -> Answers:
        results = self._translate(queries, n_best)
        return [["".join(answer) for answer in result.hypotheses] for result in results]

    def scored(self, queries: Sequence[str], n_best: int) -> Scored:
        results = self._translate(queries, n_best, return_scores=True)
        return [
            [("".join(answer), score) for answer, score in zip(*each, strict=True)]
            for each in ((result.hypotheses, result.scores) for result in results)
        ]

    def _translate(self, queries: Sequence[str], n_best: int, **options: bool) -> list[Any]:
        tokens = self._text.tokens
        sources = [[tokens[i] for i in self._text.source(query)] for query in queries]
        results: list[Any] = self._translator.translate_batch(
            sources,
            beam_size=n_best,
            num_hypotheses=n_best,
            length_penalty=0,
            max_decoding_length=search.MAX_LENGTH,
            **options,
        )
        return results


class PlainTorch(Peer):
    """A loop with a cache in PyTorch; settings are dtypes."""

    def __init__(self, folder: Path, setting: str, threads: int) -> None:
        super().__init__(folder, setting, threads)
        import torch

        from peering.cached import Encoder, Step
        from peering.convert import twin

        torch.set_num_threads(threads)
        self._torch = torch
        self._text = Text(folder)
        model = twin(folder)
        self._spec = model.spec
        self._dtype = getattr(torch, setting)
        self._encoder, self._step = Encoder(model), Step(model)
        model.to(self._dtype)
        self._step.positions = self._step.positions.to(self._dtype)

    def answer(self, queries: Sequence[str], n_best: int) -> Answers:
        if n_best > 1:
            return _texts(self.scored(queries, n_best))
        with self._torch.inference_mode():
            return search.greedy(self, [self._text.source(each) for each in queries], self._text)

    def scored(self, queries: Sequence[str], n_best: int) -> Scored:
        sources = [self._text.source(query) for query in queries]
        with self._torch.inference_mode():
            return [search.beam(self, source, n_best, self._text) for source in sources]

    def start(self, source_ids: np.ndarray) -> None:
        self._source_ids = self._torch.from_numpy(source_ids)
        self._memory = self._encoder(self._source_ids)
        heads, width = self._spec.head_count, self._spec.head_dim
        shape = (self._spec.decoder_layers, 2, len(source_ids), heads, 0, width)
        self._cache = self._torch.zeros(shape, dtype=self._dtype)

    def step(self, token_ids: np.ndarray, position: int) -> np.ndarray:
        logits, self._cache = self._step(
            self._torch.from_numpy(token_ids),
            self._torch.tensor([position]),
            self._source_ids,
            self._memory,
            self._cache,
        )
        result: np.ndarray = logits.float().numpy()
        return result

    def select_rows(self, rows: np.ndarray) -> None:
        self._cache = self._cache.index_select(2, self._torch.from_numpy(rows))

    def select_queries(self, queries: np.ndarray) -> None:
        self.select_rows(queries)
        indices = self._torch.from_numpy(queries)
        self._source_ids = self._source_ids.index_select(0, indices)
        self._memory = self._memory.index_select(2, indices)


class Graphs(Peer):
    """A loop with a cache around two exported graphs, `encoder` and `step`."""

    def __init__(self, folder: Path, setting: str, threads: int) -> None:
        super().__init__(folder, setting, threads)
        import json

        self._text = Text(folder)
        self._spec = json.loads((folder / "molspec" / "config.json").read_text())["spec"]
        suffix = "_int8" if setting == "int8" else ""
        self._paths = [folder / "onnx" / f"{name}{suffix}.onnx" for name in ("encoder", "step")]

    @abstractmethod
    def encode(self, source_ids: np.ndarray) -> np.ndarray:
        """Run the encoder."""

    @abstractmethod
    def run(self, inputs: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Run a step: logits and the grown cache."""

    def answer(self, queries: Sequence[str], n_best: int) -> Answers:
        if n_best > 1:
            return _texts(self.scored(queries, n_best))
        return search.greedy(self, [self._text.source(each) for each in queries], self._text)

    def scored(self, queries: Sequence[str], n_best: int) -> Scored:
        sources = [self._text.source(query) for query in queries]
        return [search.beam(self, source, n_best, self._text) for source in sources]

    def start(self, source_ids: np.ndarray) -> None:
        self._source_ids = source_ids
        self._memory = self.encode(source_ids)
        heads, width = self._spec["head_count"], self._spec["d_model"] // self._spec["head_count"]
        shape = (self._spec["decoder_layers"], 2, len(source_ids), heads, 0, width)
        self._cache = np.zeros(shape, dtype=np.float32)

    def step(self, token_ids: np.ndarray, position: int) -> np.ndarray:
        logits, self._cache = self.run(
            {
                "token_ids": token_ids,
                "position": np.array([position]),
                "source_ids": self._source_ids,
                "memory": self._memory,
                "cache": self._cache,
            }
        )
        return logits

    def select_rows(self, rows: np.ndarray) -> None:
        self._cache = self._cache.take(rows, axis=2)

    def select_queries(self, queries: np.ndarray) -> None:
        self.select_rows(queries)
        self._source_ids = self._source_ids[queries]
        self._memory = self._memory.take(queries, axis=2)


class OnnxRuntime(Graphs):
    """Settings are float32 and int8, quantised dynamically."""

    def __init__(self, folder: Path, setting: str, threads: int) -> None:
        super().__init__(folder, setting, threads)
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        self._encoder, self._step = (
            onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
            for path in self._paths
        )

    def encode(self, source_ids: np.ndarray) -> np.ndarray:
        memory: np.ndarray = self._encoder.run(None, {"source_ids": source_ids})[0]
        return memory

    def run(self, inputs: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        logits, cache = self._step.run(None, inputs)
        return logits, cache


def _texts(scored: Scored) -> Answers:
    return [[text for text, _ in answers] for answers in scored]


#: The settings of each peer, with the environment variables that a setting needs.
SETTINGS: dict[str, dict[str, dict[str, str]]] = {
    "molspec": {
        setting: {}
        for dtype in ("float32", "bfloat16", "int8")
        for setting in (dtype, f"{dtype} none")
    },
    "CTranslate2": {
        "float32": {},
        "int8": {},
        "float32 mkl": {"CT2_USE_MKL": "1"},
        "int8 mkl": {"CT2_USE_MKL": "1"},
    },
    "ONNX Runtime": {"float32": {}, "int8": {}},
    "PyTorch loop": {"float32": {}, "bfloat16": {}},
}
ENGINES: dict[str, type[Peer]] = {
    "molspec": Molspec,
    "CTranslate2": CTranslate2,
    "ONNX Runtime": OnnxRuntime,
    "PyTorch loop": PlainTorch,
}
