"""Two T5 models of transformers, one drafting for the other: a table of benchmarks/sampling.md.

    molspec distil retro --data PREPARED --output DISTILLED
    python bench/campaigns/t5.py DISTILLED --folder T5 --steps 1500

The paper on speculative sampling (Leviathan et al. 2023) uses T5. Both models begin with random
weights: the large one learns the data, the small one learns the large one's answers. The trained
models are stored in the folder.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from itertools import chain, count, islice
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any

import torch
from torch import Tensor, nn
from transformers import T5Config, T5ForConditionalGeneration

import machine
import molspec
from molspec.model.spec import ModelSpec
from molspec.text import Vocabulary
from molspec.training import prepared
from molspec.training.batches import Batches
from molspec.training.prepared import EncodedPairs
from molspec.training.trainer import learning_rate_factor
from sampling import drafters_with

_SIZES = {
    "large": {"d_model": 128, "d_kv": 32, "num_heads": 4, "d_ff": 384, "num_layers": 3},
    "small": {"d_model": 48, "d_kv": 16, "num_heads": 3, "d_ff": 96, "num_layers": 1},
}
_MAX_LENGTH = 160
_SEARCHES: dict[str, dict[str, Any]] = {
    "greedy": {},
    "4 samples": {"samples": 4},
    "4 samples by rejection": {"samples": 4, "verification": "rejection"},
    "beam of 3": {"n_best": 3},
    "beam of 5": {"n_best": 5},
}


def model(size: str, vocabulary: Vocabulary) -> T5ForConditionalGeneration:
    torch.manual_seed(0)
    config = T5Config(
        vocab_size=vocabulary.size,
        pad_token_id=vocabulary.pad_id,
        eos_token_id=vocabulary.eos_id,
        decoder_start_token_id=vocabulary.bos_id,
        dropout_rate=0.0,
        **_SIZES[size],
    )
    return T5ForConditionalGeneration(config)


def train(
    learner: T5ForConditionalGeneration, table: EncodedPairs, vocabulary: Vocabulary, steps: int
) -> None:
    """Train by Adam with a rate that rises and falls; prints the loss every 50 steps."""
    batches = Batches(table, _spec(vocabulary), vocabulary, 4096, torch.device("cpu"))
    epochs = (batches.epoch(0, number) for number in count())
    pairs = chain.from_iterable(
        (batches.take(epoch, index) for index in range(len(epoch))) for epoch in epochs
    )
    optimizer = torch.optim.AdamW(learner.parameters(), lr=0.0, betas=(0.9, 0.98))
    learner.train()
    for step, (source_ids, target_ids) in enumerate(islice(pairs, steps)):
        optimizer.param_groups[0]["lr"] = 3e-3 * learning_rate_factor((step + 1) / steps, 0.1)
        loss = _loss(learner, source_ids, target_ids, vocabulary.pad_id)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(learner.parameters(), 1.0)
        optimizer.step()
        if step % 50 == 0:
            print(f"step {step}: {float(loss.detach()):.3f} nats a token", flush=True)
    learner.eval()


def _loss(learner: Any, source_ids: Tensor, target_ids: Tensor, pad_id: int) -> Tensor:
    logits = learner(
        input_ids=source_ids,
        attention_mask=source_ids != pad_id,
        decoder_input_ids=target_ids[:, :-1],
    ).logits
    expected = target_ids[:, 1:]
    return nn.functional.cross_entropy(logits.transpose(1, 2), expected, ignore_index=pad_id)


def answered(
    teacher: T5ForConditionalGeneration, table: EncodedPairs, vocabulary: Vocabulary
) -> EncodedPairs:
    """The pairs' sources with the teacher's greedy answers."""
    sources = [source for source, _ in table.pairs()]
    found = decode(teacher, sources, vocabulary)
    rows = zip(found.sequences[:, 0].tolist(), found.lengths[:, 0].tolist(), strict=True)
    answers = [
        [token_id for token_id in row[:length] if token_id != vocabulary.eos_id]
        for row, length in rows
    ]
    return EncodedPairs.pack(zip(sources, answers, strict=True))


def decode(
    t5: Any, sources: Sequence[Sequence[int]], vocabulary: Vocabulary, **options: Any
) -> molspec.Hypotheses:
    return molspec.decode(
        t5,
        [_framed(source, vocabulary) for source in sources],
        pad_id=vocabulary.pad_id,
        bos_id=_spec(vocabulary).decoder_start(vocabulary.bos_id),
        eos_id=vocabulary.eos_id,
        max_length=_MAX_LENGTH,
        tokens=vocabulary.tokens,
        **options,
    )


def _framed(source: Sequence[int], vocabulary: Vocabulary) -> list[int]:
    before, after = _spec(vocabulary).source_frame(vocabulary.bos_id, vocabulary.eos_id)
    return [*before, *source, *after]


def _spec(vocabulary: Vocabulary) -> ModelSpec:
    """A spec that says how sources and targets are framed."""
    return ModelSpec(source_vocab_size=vocabulary.size, target_vocab_size=vocabulary.size)


def trained(folder: Path, data: prepared.Prepared, steps: int, pairs: int) -> dict[str, Any]:
    """Both models; those that the folder lacks are trained first."""
    vocabulary, table = data.vocabulary, data.train
    models: dict[str, Any] = {}
    for size in _SIZES:
        models[size] = model(size, vocabulary)
        path = folder / f"{size}-{steps}.pt"
        if not path.exists():
            if size == "small":
                table = answered(models["large"], table.spread(pairs), vocabulary)
            train(models[size], table, vocabulary, steps)
            torch.save(models[size].state_dict(), path)
        models[size].load_state_dict(torch.load(path, weights_only=True))
        models[size].eval()
    return models


def speed(
    models: dict[str, Any],
    sources: Sequence[Sequence[int]],
    vocabulary: Vocabulary,
    rounds: int,
) -> Iterator[str]:
    drafters = drafters_with(models["small"])
    columns = "decoder calls a query | accepted of drafted | ms a query | speed-up"
    yield f"| search | drafter | {columns} |"
    yield "|---|---|" + "---:|" * 4
    for search, options in _SEARCHES.items():
        seconds: dict[str, list[float]] = {}
        found: dict[str, molspec.Hypotheses] = {}
        for _ in range(rounds):
            for name, drafter in drafters.items():
                begin = process_time()
                found[name] = decode(
                    *(models["large"], sources, vocabulary),
                    **options,
                    drafter=drafter,
                    batch_size=1,
                )
                seconds.setdefault(name, []).append(process_time() - begin)
        for name, result in found.items():
            statistics = result.statistics
            pairs = zip(seconds["none"], seconds[name], strict=True)
            yield (
                f"| {search} | {name} | {statistics.query_calls / len(sources):.1f} "
                f"| {statistics.accepted_per_drafted:.1%} "
                f"| {1e3 * median(seconds[name]) / len(sources):.0f} "
                f"| {median(none / drafted for none, drafted in pairs):.2f} |"
            )
        if "rejection" in search:
            continue
        same = sum(_same(found[name], found["none"]) for name in drafters)
        yield f"| {search} | *answers that are those of none* | {same / len(drafters):.1%} | | | |"


def _same(found: molspec.Hypotheses, others: molspec.Hypotheses) -> float:
    length = min(found.sequences.shape[-1], others.sequences.shape[-1])
    rows = (found.sequences[..., :length] == others.sequences[..., :length]).all(-1)
    return float((rows & (found.lengths == others.lengths)).float().mean())


def main() -> None:
    parser = argparse.ArgumentParser(description="T5 drafts for T5.")
    parser.add_argument("data", type=Path, help="a folder that `molspec distil` wrote")
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument(
        "--pairs", type=int, default=10_000, help="sources that the large model answers"
    )
    parser.add_argument("--limit", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(1)
    data = prepared.read(options.data)
    options.folder.mkdir(parents=True, exist_ok=True)
    models = trained(options.folder, data, options.steps, options.pairs)
    print(f"{machine.described()}\n")
    for size, each in models.items():
        print(f"{size}: {sum(weight.numel() for weight in each.parameters()) / 1e6:.2f} million")
    sources = [source for source, _ in data.validation.spread(options.limit).pairs()]
    for line in speed(models, sources, data.vocabulary, options.rounds):
        print(line, flush=True)


if __name__ == "__main__":
    main()
