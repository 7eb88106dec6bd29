"""A PyTorch model's own loops beside `molspec.decode` and `molspec.compile`, in one run.

The weights of a checkpoint go into a plain torch.nn.Transformer. All ways decode the same queries
in turns, so that a disturbance of the machine affects all of them: the owner's loop that decodes
the whole prefix in each step, the owner's loop with cached keys and values, `molspec.decode` on the
unchanged module, and `molspec.compile`. Prints Markdown; times are ratios to the first loop.

    python bench/campaigns/drop_in.py test.tsv.xz --model product --limit 100
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path

import torch

import machine
import molspec
from molspec import checkpoints
from molspec.checkpoints.bundled import locate
from molspec.text import TokenizationError, Vocabulary
from plain_transformer import PlainTransformer, WithCache, WithoutCache, beam_search, greedy
from rows import in_turns, markdown, pairs_of

Batch = list[list[int]]
#: Decodes a batch: the tokens of each query's best answer, without EOS.
Way = Callable[[Batch], Batch]


def ways(
    model: PlainTransformer, bos_id: int, vocabulary: Vocabulary, beams: int, max_length: int
) -> dict[str, Way]:
    """The ways to compare, by name."""
    engine = molspec.compile(model)
    ends = bos_id, vocabulary.eos_id, max_length

    def loop(kind: type[WithCache] | type[WithoutCache], batch: Batch) -> Batch:
        rows = [torch.tensor(row) for row in batch]
        source_ids = torch.nn.utils.rnn.pad_sequence(rows, True, vocabulary.pad_id)
        with torch.no_grad():
            step = kind(model, source_ids, vocabulary.pad_id, beams)
            if beams == 1:
                found = greedy(step, len(batch), *ends)
            else:
                found = beam_search(step, beams, *ends)[:1]
        return [_before_eos(row, vocabulary.eos_id) for row in found.tolist()]

    def drop_in(decodable: object, drafter: str | None, batch: Batch) -> Batch:
        found = molspec.decode(
            decodable,
            batch,
            bos_id=bos_id,
            eos_id=vocabulary.eos_id,
            pad_id=vocabulary.pad_id,
            max_length=max_length,
            n_best=beams,
            tokens=vocabulary.tokens,
            drafter=drafter,
            batch_size=len(batch),
        )
        return [_before_eos(row, vocabulary.eos_id) for row in found.sequences[:, 0].tolist()]

    found: dict[str, Way] = {
        "own loop": partial(loop, WithoutCache),
        "own loop with a cache": partial(loop, WithCache),
        "molspec.decode": partial(drop_in, model, None),
        "molspec.compile": partial(drop_in, engine, None),
    }
    if beams == 1:
        found["molspec.decode, windows"] = partial(drop_in, model, "windows")
    return found


def _before_eos(row: list[int], eos_id: int) -> list[int]:
    return row[: row.index(eos_id)] if eos_id in row else row


HEADS = ("way", "beams", "batch", "s a query", "ratio to the own loop", "answers as its")


def cells(
    compared: dict[str, Way], queries: Batch, beams: int, batch_size: int
) -> Iterator[list[str]]:
    """The cells of each way."""
    batches = [queries[i : i + batch_size] for i in range(0, len(queries), batch_size)]
    found = in_turns([map(way, batches) for way in compared.values()])
    seconds = [sum(taken for _, taken in each) for each in found]
    answers = [[row for batch, _ in each for row in batch] for each in found]
    for name, mine, rows in zip(compared, seconds, answers, strict=True):
        equal = sum(row == own for row, own in zip(rows, answers[0], strict=True))
        yield [
            name,
            str(beams),
            str(min(batch_size, len(queries))),
            f"{mine / len(queries):.4f}",
            f"{seconds[0] / mine:.1f}x",
            f"{equal} of {len(queries)}",
        ]


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("table", type=Path, help="queries, in a column as for `molspec evaluate`")
    parser.add_argument("--model", default="product")
    parser.add_argument("--limit", type=int, default=64)
    parser.add_argument("--max-length", type=int, default=200)
    parser.add_argument("--batch-size", type=int, nargs="+", default=[1, 32], help="of greedy")
    parser.add_argument("--beams", type=int, nargs="*", default=[5], help="at batch 1")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    flags = parse(arguments)
    torch.set_num_threads(1)
    checkpoint = checkpoints.read(locate(flags.model))
    vocabulary = checkpoint.vocabulary
    bos_id = checkpoint.spec.decoder_start(vocabulary.bos_id)
    model = PlainTransformer(checkpoint)
    queries = []
    for row in pairs_of(flags.table, checkpoint.task, flags.limit):
        try:
            ids = vocabulary.encode(row.query)
        except TokenizationError:
            continue
        queries.append([bos_id, *ids, vocabulary.eos_id])
    print(
        f"{flags.model} in plain PyTorch, float32; {len(queries)} queries of {flags.table.name}, "
        "one thread, in turns.\n"
        f"{machine.described(weights=checkpoint.fingerprint()[:8])}.\n"
    )
    tables = (
        cells(ways(model, bos_id, vocabulary, beams, flags.max_length), queries, beams, batch_size)
        for beams, batch_size in (
            *((1, n) for n in flags.batch_size),
            *((n, 1) for n in flags.beams),
        )
    )
    for line in markdown(HEADS, chain.from_iterable(tables)):
        print(line, flush=True)


if __name__ == "__main__":
    main()
