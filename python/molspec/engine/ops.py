"""The native operators: one typed function each, whose twin of the same name is in `reference`.

Operators of rounds on a device take only CUDA tensors and have no function here: `engine.cuda`
calls them from `library`. greedy_rows.h and beam_rows.h in csrc/cuda/rounds describe their tensors;
their twin is the host's search with the same spec, in a `_native.Batch`.
"""

import ctypes
from functools import cache
from pathlib import Path
from typing import cast

import torch
from torch import Tensor

from molspec import _native
from molspec.common.fields import check_count

_MOST_THREADS = _native.LIMITS["threads"]
#: In an editable install the libraries are in another folder than this file.
_BUILT = Path(_native.__file__).parent
_CUDA = "molspec_ops_cuda.so"


def _load(name: str) -> None:
    try:
        torch.ops.load_library(str(_BUILT / name))
    except OSError as error:
        raise ImportError(
            f"{name} does not load with torch {torch.__version__}: {error.__cause__ or error}; "
            "molspec needs torch 2.11 or later and was tried with 2.11 to 2.15: install one of "
            "these, or build molspec again beside this one"
        ) from error


_load("molspec_ops.so")

#: All operators that torch has registered.
library = torch.ops.molspec
#: The address of `decoder_step` without torch (csrc/common/prepared_step.h).
_STEP_FUNCTION = cast(
    int,
    ctypes.cast(ctypes.CDLL(str(_BUILT / "molspec_ops.so")).molspec_step, ctypes.c_void_p).value,
)


def has_cuda() -> bool:
    """Whether molspec was installed with its CUDA operators."""
    return _native.CUDA_CHIPS != ""


@cache
def load_cuda() -> None:
    """Load the CUDA operators, once: importing molspec does not initialise CUDA.

    Raises ImportError if the library was not installed, or torch is not built with CUDA.
    """
    _load(_CUDA)


def cuda_versions() -> tuple[int, int]:
    """The CUDA version that the driver can run, and the one that the operators were built with.

    Both as 1000 * major + 10 * minor. Raises ImportError as `load_cuda`.
    """
    load_cuda()
    versions = ctypes.c_int(), ctypes.c_int()
    ctypes.CDLL(str(_BUILT / _CUDA)).molspec_cuda_versions(*map(ctypes.byref, versions))
    return versions[0].value, versions[1].value


def pack_int8(
    rows: Tensor, first: int, panels: Tensor, scales: Tensor, offsets: Tensor, by_rows: Tensor
) -> None:
    """Round rows of a matrix to 255 steps each and store them in the layout of a packed model.

    rows float32 [row, inner] are the output columns `first`, the first one of a panel, and those
    that follow. Written are their parts of the whole matrix (csrc/ops/model.h), whose other columns
    stay: panels uint8 [columns * inner rounded up to 4], scales float32 [columns], offsets int32
    [columns], and by_rows uint8, of as many bytes as panels, or none.

    Raises RuntimeError if shapes or types disagree.
    """
    library.pack_int8(rows, first, panels, scales, offsets, by_rows)


def encode(
    weights: Tensor,
    table: Tensor,
    source_ids: Tensor,
    source_offsets: Tensor,
    memories: Tensor,
    memory_cache: Tensor,
    workspace: Tensor,
) -> None:
    """Encode sources and store their keys and values for every decoder layer.

    weights uint8 [bytes] and table int64 [entries] are a packed model (`engine.packing`).
    source_ids int32 [total] has the sources one after the other, BOS and EOS included;
    source_offsets int32 [query + 1] has the begin of each. memories int32 [query, 1 + blocks] has,
    in row i, the length of source i and its blocks of memory_cache, sixteen positions a block.
    memory_cache float32 [block, decoder layer, block size] is written.
    workspace uint8 [bytes] is scratch of at least `workspace_size(longest, longest)`; on CUDA of
    `workspace_size(total, longest)`.

    Raises RuntimeError if a shape, a type, an id or a block is out of range.
    """
    library.encode(weights, table, source_ids, source_offsets, memories, memory_cache, workspace)


def decoder_step(
    weights: Tensor,
    table: Tensor,
    nodes: Tensor,
    path_slots: Tensor,
    memories: Tensor,
    memory_cache: Tensor,
    kv_cache: Tensor,
    workspace: Tensor,
    log_probs: Tensor,
    hidden_states: Tensor | None = None,
) -> None:
    """One pass of the decoder over new nodes of the token tree.

    nodes int32 [node, 4] has rows (token id, position, path begin, memory): the node's path is
    path_slots[begin : begin + position + 1], int32 slots of kv_cache (block * 16 + position in the
    block) from BOS to the node itself, whose keys and values are stored in the last one. Parents
    precede their children. `memory` is a row of memories. kv_cache float32
    [block, decoder layer, block size] and log_probs float32 [at least node, vocab] are written:
    row i of log_probs has the natural log-probabilities of the token after node i.

    hidden_states float32 [slot, d_model], if given, is written too: the row of a node's slot has
    its last hidden state, the last layer's output after the final norm.

    A row of log_probs depends on the node's path and memory alone, bit for bit.
    Raises RuntimeError if a shape, a type, an id or a slot is out of range.
    """
    if hidden_states is None:
        hidden_states = log_probs.new_empty(0, 0)
    tree = nodes, path_slots, memories, memory_cache, kv_cache
    library.decoder_step(weights, table, *tree, workspace, log_probs, hidden_states)


def prepared_step(weights: Tensor, table: Tensor, *buffers: Tensor) -> _native.Step:
    """`decoder_step` on the CPU over fixed tensors, callable without torch.

    buffers: memories, memory_cache, kv_cache, workspace, log_probs. `_native.Batch.run` uses it: it
    writes log_probs and kv_cache like `decoder_step`, and raises the same errors. It refers to the
    tensors, which are checked once. Raises RuntimeError.
    """
    *_, kv_cache, _, log_probs = buffers
    nodes = table.new_empty((0, 4), dtype=torch.int32)
    prepared = table.new_empty(_native.LIMITS["prepared_step_bytes"], dtype=torch.uint8)
    library.prepare_step(
        weights, table, nodes, nodes[:, 0], *buffers, log_probs.new_empty(0, 0), prepared
    )
    return _native.Step(
        function=_STEP_FUNCTION,
        prepared=prepared.numpy(),
        log_probs=log_probs.numpy(),
        block_count=len(kv_cache),
        tensors=(weights, table, *buffers),
    )


def refuse_fault(workspace: Tensor) -> None:
    """Wait for the device and raise the fault of the last `encode` or `decoder_step`.

    On CUDA tensors those two return at once and check ids, slots and blocks on the device: a row
    with a value out of range is left out (its log-probs are NaN) and the fault is stored in
    workspace. On the CPU they raise it themselves.

    Raises RuntimeError if there was a fault.
    """
    library.refuse_fault(workspace)


def workspace_size(weights: Tensor, table: Tensor, rows: int, positions: int) -> int:
    """Bytes of workspace for a call of `rows` source positions or nodes over `positions`."""
    size: int = library.workspace_size(weights, table, rows, positions)
    return size


@cache
def instruction_set() -> str:
    """The kernels in use.

    portable, avx2, avx2_vnni, avx512, avx512_vnni, avx512_bf16, avx512_amx or neon_dotprod. Raises
    ValueError if MOLSPEC_INSTRUCTION_SET names others.
    """
    try:
        name: str = library.instruction_set()
    except RuntimeError as error:  # torch adds a trace of its own code
        raise ValueError(str(error).partition("\n")[0]) from error
    return name


def amx_fault() -> str | None:
    """Why the kernels do not use the processor's AMX; None if they do, or if it has none."""
    fault: str = library.amx_fault()
    return fault or None


def set_num_threads(threads: int) -> None:
    """Let `encode` and `decoder_step` use `threads` threads on the CPU, 1 to 64.

    Their results do not depend on it. Raises ValueError for any other number.
    """
    library.set_num_threads(check_count("threads", threads, _MOST_THREADS))


def get_num_threads() -> int:
    """Threads that `encode` and `decoder_step` use on the CPU, 1 by default."""
    count: int = library.get_num_threads()
    return count


def _ready(tensor: Tensor) -> None:
    if tensor.is_cuda:
        load_cuda()


def left_pad(token_ids: Tensor, lengths: Tensor, pad_id: int) -> tuple[Tensor, Tensor]:
    """Align ragged sequences at their ends.

    token_ids int64 [total] has the sequences one after the other, lengths int64 [row] their
    lengths. Returns padded_ids int64 [row, longest] and position_offsets int64 [row]: the token in
    column c of row r has position c - position_offsets[r] (Andronov et al., section "Speculative
    beam search"). Raises RuntimeError if lengths do not add up.
    """
    _ready(token_ids)
    padded: tuple[Tensor, Tensor] = library.left_pad(token_ids, lengths, pad_id)
    return padded


def expand_drafts(
    token_ids: Tensor, position_offsets: Tensor, query_indices: Tensor, draft_ids: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Put every draft of a query after every hypothesis of the query.

    token_ids int64 [hypothesis, length] (padded on the left), position_offsets and query_indices
    int64 [hypothesis], draft_ids int64 [query, draft, draft length]. Returns
    ids [hypothesis * draft, length + draft length], and the offset and the query of every row.
    Raises RuntimeError if shapes disagree or a query index is out of range.
    """
    _ready(token_ids)
    rows: tuple[Tensor, Tensor, Tensor] = library.expand_drafts(
        token_ids, position_offsets, query_indices, draft_ids
    )
    return rows


def acceptance_length(draft_ids: Tensor, draft_lengths: Tensor, predicted_ids: Tensor) -> Tensor:
    """Length of the longest prefix of each draft that equals the model's own tokens.

    draft_ids and predicted_ids int64 [row, draft length]; draft_lengths int64 [row] are the drafts'
    lengths without padding. Returns int64 [row]. Raises RuntimeError if shapes disagree.
    """
    _ready(draft_ids)
    accepted: Tensor = library.acceptance_length(draft_ids, draft_lengths, predicted_ids)
    return accepted


@torch.library.register_fake("molspec::decoder_step")
@torch.library.register_fake("molspec::encode")
def _(*_arguments: Tensor) -> None:
    return None


@torch.library.register_fake("molspec::left_pad")
def _(token_ids: Tensor, lengths: Tensor, pad_id: int) -> tuple[Tensor, Tensor]:
    width = torch.library.get_ctx().new_dynamic_size()
    rows = lengths.shape[0]
    return token_ids.new_empty((rows, width)), token_ids.new_empty((rows,))


@torch.library.register_fake("molspec::expand_drafts")
def _(
    token_ids: Tensor, position_offsets: Tensor, query_indices: Tensor, draft_ids: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    rows = token_ids.shape[0] * draft_ids.shape[1]
    width = token_ids.shape[1] + draft_ids.shape[2]
    of_rows = token_ids.new_empty((rows,))
    return token_ids.new_empty((rows, width)), of_rows, torch.empty_like(of_rows)


@torch.library.register_fake("molspec::acceptance_length")
def _(draft_ids: Tensor, draft_lengths: Tensor, predicted_ids: Tensor) -> Tensor:
    return draft_ids.new_empty((draft_ids.shape[0],))
