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
from itertools import islice
from pathlib import Path
from time import perf_counter

import torch

import machine
import molspec
from molspec import checkpoints
from molspec.checkpoints.bundled import locate
from molspec.evaluation import PairTable
from molspec.text import TokenizationError, Vocabulary
from plain_transformer import PlainTransformer, WithCache, WithoutCache, beam_search, greedy

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


def in_turns(
    compared: dict[str, Way], batches: Sequence[Batch]
) -> Iterator[tuple[str, float, Batch]]:
    """Name, seconds and answers of every way; the way that begins changes every batch."""
    seconds = dict.fromkeys(compared, 0.0)
    answers: dict[str, Batch] = {name: [] for name in compared}
    names = list(compared)
    for index, batch in enumerate(batches):
        for turn in range(len(names)):
            name = names[(index + turn) % len(names)]
            began = perf_counter()
            found = compared[name](batch)
            seconds[name] += perf_counter() - began
            answers[name] += found
    for name in names:
        yield name, seconds[name], answers[name]


HEAD = (
    "| beams | batch | way | s a query | ratio to the own loop | answers as its |",
    "|" + "---|" * 6,
)


def table(compared: dict[str, Way], queries: Batch, beams: int, batch_size: int) -> Iterator[str]:
    """Rows of a Markdown table."""
    batches = [queries[i : i + batch_size] for i in range(0, len(queries), batch_size)]
    rows = list(in_turns(compared, batches))
    _, base_seconds, base_answers = rows[0]
    for name, seconds, answers in rows:
        equal = sum(mine == own for mine, own in zip(answers, base_answers, strict=True))
        cells = (
            str(beams),
            str(min(batch_size, len(queries))),
            name,
            f"{seconds / len(queries):.4f}",
            f"{base_seconds / seconds:.1f}x",
            f"{equal} of {len(queries)}",
        )
        yield f"| {' | '.join(cells)} |"


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("table", type=Path, help="queries, in a column as for `molspec evaluate`")
    parser.add_argument("--query-column")
    parser.add_argument("--target-column")
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
    pairs = PairTable(flags.table, flags.query_column, flags.target_column, checkpoint.task)
    queries = []
    for row in islice(pairs, flags.limit):
        try:
            ids = vocabulary.encode(row.query)
        except TokenizationError:
            continue
        queries.append([bos_id, *ids, vocabulary.eos_id])
    print(
        f"{flags.model} in plain PyTorch, float32; {len(queries)} queries of {flags.table.name}, "
        f"column {pairs.query_column}, one thread, in turns.\n"
        f"{machine.described(weights=checkpoint.fingerprint()[:8])}.\n"
    )
    print(*HEAD, sep="\n", flush=True)
    for beams, batch_size in [
        *((1, size) for size in flags.batch_size),
        *((n, 1) for n in flags.beams),
    ]:
        compared = ways(model, bos_id, vocabulary, beams, flags.max_length)
        for line in table(compared, queries, beams, batch_size):
            print(line, flush=True)


if __name__ == "__main__":
    main()
