"""Times of a step by its nodes, of single operators, and of larger beams and other dtypes."""

from collections.abc import Iterator
from functools import partial

import numpy as np
import subject
import torch
from bench.campaigns.plain_transformer import PlainTransformer, WithCache, WithoutCache, greedy
from clock import queued_microseconds, spin, wall_seconds
from place import DTYPES, Place, Row
from real import PLAIN, TREE, Case, cases, exact, standard
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from molspec.checkpoints import Checkpoint
from molspec.engine.cuda.session import CudaSession

#: Queries and nodes of steps.
Shapes = tuple[tuple[int, int], ...]
_OF_ONE: Shapes = tuple((1, count) for count in (1, 8, 16, 32, 64, 128, 512))
_OF_MANY: Shapes = ((1, 16), (1, 32), (16, 16), (128, 128), (512, 512))


def _steps(
    place: Place, dtype: str, checkpoint: Checkpoint, shapes: Shapes = _OF_ONE
) -> Iterator[Row]:
    """A step over nodes after paths of 40 tokens, as the decode loop calls it."""
    for queries, count in shapes[: 2 if place.few else None]:
        session = place.model(checkpoint, dtype).engine.session(queries)
        session.encode(range(queries), [[4] * (20 if place.few else 60)] * queries)
        # The tokens already decoded share 40 slots of their query; each node has one after them.
        slots = 48 + (count // queries + 15) // 16 * 16
        begins = [slots * (i % queries) for i in range(count)]
        nodes = np.array([[4, 40, 41 * i, i % queries] for i in range(count)], dtype=np.int32)
        paths = [[*range(at, at + 40), at + 48 + i // queries] for i, at in enumerate(begins)]
        flat = np.array(paths, dtype=np.int32).ravel()
        step = partial(session.step, nodes, flat, slots * queries // 16)
        row: Row = {"dtype": dtype, "feed_forward": checkpoint.spec.feed_forward}
        row |= {"queries": queries, "nodes": count}
        row["microseconds"] = 1e6 * wall_seconds(place, step, 50)
        if place.device == "cuda":
            assert isinstance(session, CudaSession)
            caches = session._caches
            size = caches.step_size(count)
            with caches.on_stream():
                replay = partial(caches.graphs.run, size, partial(caches.launch_step, size))
                row["microseconds_of_a_replay"] = queued_microseconds(place, replay, 100)
        yield row


def _baselines(place: Place, dtype: str, sizes: tuple[int, ...]) -> Iterator[Row]:
    """Greedy decoding of the product model in plain PyTorch, with and without a cache."""
    checkpoint = subject.checkpoint("product", place.few)[0]
    vocabulary = checkpoint.vocabulary
    begin = checkpoint.spec.decoder_start(vocabulary.bos_id)
    model = PlainTransformer(checkpoint).to(place.tensors, DTYPES[dtype])
    most = 20 if place.few else 120

    @torch.inference_mode()
    def decode(kind: type[WithCache | WithoutCache], ids: Tensor) -> None:
        with torch.device(place.tensors):
            step = kind(model, ids, vocabulary.pad_id, 1)
            greedy(step, len(ids), begin, vocabulary.eos_id, most)

    for batch_size in sizes[: 1 if place.few else None]:
        sources = [
            torch.tensor([begin, *vocabulary.encode(query), vocabulary.eos_id])
            for query in subject.queries("product", place.few, batch_size)
        ]
        ids = pad_sequence(sources, batch_first=True, padding_value=vocabulary.pad_id)
        ids = ids.to(place.tensors)
        for name, kind in (("with_cache", WithCache), ("without_cache", WithoutCache)):
            seconds = wall_seconds(place, partial(decode, kind, ids), 1) / batch_size
            yield {
                "what": f"PyTorch, {name}",
                "dtype": dtype,
                "batch_size": batch_size,
                "milliseconds_a_query": 1e3 * seconds,
            }


def _guarded(what: str, rows: Iterator[Row]) -> Iterator[Row]:
    """The rows; an error ends these and no later ones."""
    try:
        yield from rows
    except Exception as error:
        yield {"what": what, "ok": False, "error": f"{type(error).__name__}: {error}"[:400]}


def _sections(place: Place, sections: dict[str, Iterator[Row]]) -> Iterator[Row]:
    spin(place)
    for what, rows in sections.items():
        for row in _guarded(what, rows):
            yield {"section": what, **row}


def run(place: Place) -> Iterator[Row]:
    """Time steps of the bundled models in bfloat16, operators, and other people's loops."""
    product, retro = (subject.checkpoint(name, place.few)[0] for name in ("product", "retro"))

    def of_many() -> Iterator[Row]:
        for each in (product, retro):
            yield from _steps(place, "bfloat16", each, _OF_MANY)

    yield from _sections(
        place,
        {
            "steps": _steps(place, "bfloat16", product),
            "steps of many": of_many(),
            "baselines": _baselines(place, "bfloat16", (1, 32)),
        },
    )


#: Larger beams, and searches in float32.
_LARGE: tuple[Case, ...] = tuple(
    ("retro", options, size) for size in (1, 32) for options in (standard(25), exact(25))
)
_EXACT: tuple[Case, ...] = tuple(
    (*search, size)
    for size in (1, 32)
    for search in (("product", TREE), ("product", PLAIN), ("retro", standard(10)))
)


def more(place: Place) -> Iterator[Row]:
    """Larger beams, the paper's feed-forward size, and float32."""
    product = subject.checkpoint("product", place.few)[0]
    most = 1 if place.few else None
    yield from _sections(
        place,
        {
            "retro, 25": cases(place, "bfloat16", _LARGE[:most]),
            "steps, wide": _steps(place, "bfloat16", subject.padded(product)),
            "steps, float32": _steps(place, "float32", product),
            "queries, float32": cases(place, "float32", _EXACT[:most]),
            "baselines": _baselines(place, "bfloat16", (8, 128)),
        },
    )
    if place.device == "cuda":
        yield {"peak_memory_bytes": torch.cuda.max_memory_allocated()}
