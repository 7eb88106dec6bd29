"""Models of other people: their own loop, `molspec.decode` and `molspec.compile`, one query a time.

    nox -s clients

makes docs/benchmarks/clients.md. Every model is taken as its authors published it, at a commit or a
release, with the glue that stands there. Their files are downloaded into --sources once.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import inspect
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import torch
from torch import nn

import ceilings
import machine
import molspec
from published import hugging_face, models
from published.models import PUBLISHED, Decode, Encode

_LENGTHS = (40, 23, 31)
_MOST = 100


@dataclass(frozen=True)
class Measured:
    """A model's row; seconds are those of a query."""

    name: str
    source: str
    own: float
    decode: float
    compiled: float
    int8: float
    compiling: float
    same: bool
    difference: float

    def cells(self) -> list[str]:
        """The cells of the table."""
        milliseconds = [f"{1e3 * each:.0f}" for each in (self.own, self.decode)]
        engines = [f"{1e3 * s:.1f} ({self.own / s:.0f}x)" for s in (self.compiled, self.int8)]
        proof = [f"{self.compiling:.1f}", "yes" if self.same else "NO", f"{self.difference:.0e}"]
        return [self.name, self.source, *milliseconds, *engines, *proof]


_HEAD = (
    *("model", "from", "own loop, ms", "decode, ms", "compiled, ms", "int8, ms"),
    *("compiling, s", "same answers", "largest difference"),
)


@torch.inference_mode()
def own_loop(
    encode: Encode, decode: Decode, source: Sequence[int], special: tuple[int, int, int]
) -> tuple[list[int], float]:
    """A greedy answer and its log-probability by the plain loop, which all tutorials have."""
    pad_id, bos_id, eos_id = special
    ids = torch.tensor([source])
    memory, mask = encode(ids), ids == pad_id
    found, total = [bos_id], 0.0
    while len(found) <= _MOST and found[-1] != eos_id:
        logits = decode(torch.tensor([found]), memory, mask)[0, -1]
        log_probs = logits.float().log_softmax(-1)
        found.append(int(log_probs.argmax()))
        total += float(log_probs[found[-1]])
    return found[1:], total


def _timed(work: Callable[[], Any], rounds: int) -> tuple[float, Any]:
    """Median seconds a query, and the last result."""
    spans = []
    for _ in range(rounds):
        begin = perf_counter()
        found = work()
        spans.append(perf_counter() - begin)
    return median(spans) / len(_LENGTHS), found


@dataclass(frozen=True)
class Subject:
    """A model that is measured; without glue `molspec` takes the model itself."""

    name: str
    source: str
    make: Callable[[], nn.Module]
    glue: Callable[[Any], tuple[Encode, Decode]] | None = None
    special: tuple[int, int, int] = (models.PAD, models.BOS, models.EOS)


def _subjects(sources: Path) -> Iterator[Subject]:
    for name, each in PUBLISHED.items():
        origin = each.source
        if isinstance(origin, str):
            origin = f"{origin} {importlib.metadata.version(origin)}"
        make = partial(models.made, name, sources)
        yield Subject(name, str(origin), make, each.glue, each.special)
    release = f"transformers {importlib.metadata.version('transformers')}"
    for kind in hugging_face.TYPES:
        yield Subject(kind, release, partial(hugging_face.made, kind))


def measure(subject: Subject, rounds: int) -> Measured:
    """Answers and times of a model."""
    model, special = subject.make(), subject.special
    functions = (subject.glue or hugging_face.glue)(model)
    given = functions if subject.glue else model
    generator = torch.Generator().manual_seed(3)
    pad_id, bos_id, eos_id = special
    sources = [
        [bos_id, *torch.randint(4, models.VOCAB, (n,), generator=generator).tolist(), eos_id]
        for n in _LENGTHS
    ]
    ids: dict[str, Any] = {"bos_id": bos_id, "eos_id": eos_id, "pad_id": pad_id}

    def decoded(of: Any) -> list[molspec.Hypotheses]:
        return [molspec.decode(of, [each], max_length=_MOST, **ids) for each in sources]

    own, expected = _timed(lambda: [own_loop(*functions, s, special) for s in sources], rounds)
    plain, answers = _timed(lambda: decoded(given), rounds)
    glue: dict[str, Any] = (
        {} if given is model else {"encode": functions[0], "decode": functions[1]}
    )
    begin = perf_counter()
    engine = molspec.compile(model, max_positions=models.LONGEST, **glue)
    compiling = perf_counter() - begin
    seconds, compiled = _timed(lambda: decoded(engine), rounds)
    small = molspec.compile(model, dtype="int8", max_positions=models.LONGEST, **glue)
    int8, _ = _timed(lambda: decoded(small), rounds)
    same, largest = True, 0.0
    for found in (answers, compiled):
        for (tokens, log_prob), hypotheses in zip(expected, found, strict=True):
            row = hypotheses.sequences[0, 0].tolist()
            same &= row[: len(tokens)] == tokens and not any(
                i != pad_id for i in row[len(tokens) :]
            )
            largest = max(largest, abs(float(hypotheses.log_probs[0, 0]) - log_prob))
    times = own, plain, seconds, int8, compiling
    return Measured(subject.name, subject.source, *times, same, largest)


_PAGE = """# Models of other people

Published encoder-decoders as their authors wrote them, made with {sizes}. Weights are random, so
nothing can be drafted and the times are those of the engine alone; trained models also gain by
drafts ([engines](peers.md)).

Each answers {count} sources of {shortest} to {longest} tokens, one at a time, with at most {most}
tokens, on one thread; times are those of a query.

- Own loop: the plain greedy loop without a cache, over the model's own functions.
- decode: `molspec.decode` runs the model unchanged.
- compiled, int8: `molspec.compile` in float32 and in int8, and how many times as fast as the loop.
- Same answers: `decode` and the model compiled in float32 write the loop's sequences; the largest
  difference is of an answer's log-probability. int8 rounds weights, so it is not compared.

A decoder pass in float32 reads {megabytes:.0f} MB of weights. For {most} tokens that alone takes
{reading:.0f} ms on this core, the least that any float32 engine needs; int8 reads a quarter.

`nox -s clients` on: {machine}.

{table}

{failed}
## Which glue did they need?

Models of Hugging Face need none: `molspec.decode(model, ...)` and `molspec.compile(model)` take
them. The others need two functions; PAD is 0 there.

```python
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

PAD = 0
Encode = Callable[[Tensor], Any]
Decode = Callable[[Tensor, Tensor, Tensor], Any]


{code}
```
"""


def page(rows: Sequence[Measured], failures: Sequence[str]) -> str:
    """The page of the docs."""
    # Self- and cross-attention have four matrices, of which cross-attention computes two here.
    weights = models.LAYERS * (6 * models.WIDTH**2 + 2 * models.WIDTH * models.INNER)
    byte_count, read = ceilings.reader(4 * weights)
    reading, _ = _timed(lambda: [read() for _ in range(_MOST * len(_LENGTHS))], 5)
    table = [_HEAD, ["---"] * 2 + ["---:"] * 7, *(row.cells() for row in rows)]
    glues = dict.fromkeys(each.glue for each in PUBLISHED.values())
    functions = (models.triangle, *glues)
    return _PAGE.format(
        sizes=f"{models.LAYERS} layers, width {models.WIDTH}, {models.HEADS} heads and "
        f"{models.INNER} inner positions",
        count=len(_LENGTHS),
        shortest=min(_LENGTHS),
        longest=max(_LENGTHS),
        most=_MOST,
        megabytes=byte_count / 1e6,
        reading=1e3 * reading,
        machine=machine.described(),
        table="\n".join(f"| {' | '.join(cells)} |" for cells in table),
        failed="".join(f"- {each}\n" for each in failures),
        code="\n\n\n".join(inspect.getsource(each).rstrip() for each in functions),
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure the models and write the page; the exit status is 1 if one fails or differs."""
    parser = argparse.ArgumentParser(prog="clients", description=__doc__)
    parser.add_argument("names", nargs="*", help="models; all if none is given")
    parser.add_argument("--sources", type=Path, default=Path("build/published"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--markdown", type=Path)
    flags = parser.parse_args(arguments)
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", category=UserWarning)
    rows, failures = [], []
    for subject in _subjects(flags.sources):
        if flags.names and subject.name not in flags.names:
            continue
        try:
            row = measure(subject, flags.rounds)
        except Exception as error:
            traceback.print_exc(limit=-2)
            failures.append(f"{subject.name}: {type(error).__name__}: {error}")
            continue
        rows.append(row)
        print(" | ".join(row.cells()), flush=True)
    if flags.markdown:
        flags.markdown.write_text(page(rows, failures))
    print("\n".join(failures))
    return int(bool(failures) or not all(row.same for row in rows))


if __name__ == "__main__":
    raise SystemExit(main())
