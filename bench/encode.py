"""encode: encodes one source, and computes its keys and values for every decoder layer."""

from collections.abc import Iterator
from functools import partial

import ceilings
from case import Case, Work
from models import DTYPES, batch, packed_model, shapes
from molspec.engine import ops
from molspec.model.spec import ModelSpec

SOURCE_LENGTHS = (20, 65, 200)


def cases() -> Iterator[Case]:
    """Every bundled model's shape in every dtype, short to long sources."""
    for name, spec in shapes():
        for dtype_name, dtype in DTYPES.items():
            packed = packed_model(spec, dtype)
            read = ceilings.reader(weight_count(spec) * dtype.itemsize)
            multiply = ceilings.multiplier(dtype)
            for length in SOURCE_LENGTHS:
                query = batch(packed, source_length=length)
                yield Case(
                    "encode",
                    f"{name} {dtype_name} {length} tokens",
                    partial(ops.encode, *query.encode_arguments),
                    work=Work(
                        weight_count(spec) * dtype.itemsize,
                        operations(spec, length),
                        read,
                        multiply,
                    ),
                )


def weight_count(spec: ModelSpec) -> int:
    """Weights of the encoder's matrices, and of the decoder's matrices that read the memory."""
    layer = 4 * spec.d_model**2 + 2 * spec.d_model * spec.feed_forward
    return spec.encoder_layers * layer + spec.decoder_layers * 2 * spec.d_model**2


def operations(spec: ModelSpec, length: int) -> int:
    """Multiplications and additions for one source."""
    attention = 4 * spec.encoder_layers * spec.d_model * length**2
    return 2 * weight_count(spec) * length + attention
