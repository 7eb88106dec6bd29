"""The engine for encoder-decoders of the transformers library: rows of the tree on its own cache.

A step is a dense batch, one row for every leaf. Keys and values of earlier steps come from a pool
by slot, so that reordering beams and dropping rejected drafts only move indices: only new tokens go
through the decoder. Keys and values of the memory are computed once a query.
"""

import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from inspect import signature
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache, EncoderDecoderCache

from molspec._native import RowsCall
from molspec.engine.packing import BLOCK_POSITIONS
from molspec.engine.torch.adapters import device_of
from molspec.engine.torch.agreement import change, coarsest, rounding
from molspec.engine.torch.generation import generation_settings, warn_of_processors
from molspec.engine.torch.module import Memories, RowsSession, check_logits, on_device, pad_right

#: Models whose cache has been tested.
_checked: weakref.WeakSet[Any] = weakref.WeakSet()


class HuggingFaceSession(RowsSession):
    """A batch of queries on a model of transformers.

    Warns if the model's generation config makes `generate` change the model's distributions: that
    is not applied.
    """

    def __init__(self, model: Any, bos_id: int, pad_id: int, query_count: int) -> None:
        super().__init__(query_count, device_of(model), pad_id, caches=True)
        self._model = model
        self._bos_id = bos_id
        #: The class of the encoder's output.
        self._output: Any = None
        self._pad_id = pad_id
        #: Keys and values of memories [query, length, layer, 2, head, head_dim].
        self._memory_caches = Memories(query_count)
        #: The memories that the step before gathered, as a cache.
        self._cross_cache: tuple[Tensor, DynamicCache] | None = None
        #: Keys and values of nodes [slot, layer, 2, head, head_dim].
        self._pool = torch.empty(0, device=self._device)
        # Newer versions of transformers name the argument `cache`, and warn of the older name.
        arguments = signature(model.forward).parameters
        self._cache_argument = "cache" if "cache" in arguments else "past_key_values"
        warn_of_processors(generation_settings(model), "molspec.decode", 5, search=False)

    @property
    def vocab_size(self) -> int:
        """Size of the target's vocabulary. Raises ValueError for a model without logits."""
        output = self._model.get_output_embeddings()
        if output is None:
            kind = type(self._model).__name__
            raise ValueError(f"model is a {kind}: expected one with an output layer")
        size: int = getattr(output, "out_features", None) or output.weight.shape[0]
        return size

    @property
    def source_vocab_size(self) -> int:
        """Number of ids that the encoder embeds. Raises ValueError for one without embeddings."""
        with self._refused():
            size: int = self._model.get_encoder().get_input_embeddings().num_embeddings
        return size

    def check(self, source: Sequence[int]) -> None:
        """Raise ValueError unless logits on the cache are those without it; once for a model.

        Takes an encode and three decodes of few tokens.
        """
        if self._model in _checked:
            return
        ids = [(self._bos_id + place) % self.vocab_size for place in range(4)]
        target_ids = torch.tensor([ids], device=self._device)
        source_ids = torch.tensor([source], device=self._device)
        visible = torch.ones_like(source_ids)
        with self._refused():
            output = self._model.get_encoder()(input_ids=source_ids, attention_mask=visible)
            memory, self._output = output.last_hidden_state, type(output)
            cache = EncoderDecoderCache(DynamicCache(), DynamicCache())
            parts = target_ids.split(2, dim=1)
            cached = torch.cat([self._decode(each, memory, visible, cache) for each in parts], 1)
            whole = self._decode(target_ids, memory, visible, None)
        difference = change(whole, cached)
        if difference > rounding(whole, coarsest([self._model], [memory, whole])):
            raise ValueError(self._refusal(f"log-probabilities change by {difference:.2g}"))
        _checked.add(self._model)

    def _refusal(self, reason: object) -> str:
        return (
            f"model is a {type(self._model).__name__}, which does not read several tokens on the "
            f"usual cache of transformers ({reason}). For this class write\n"
            "    encode = lambda ids: model.get_encoder()(ids, attention_mask=(ids != "
            f"{self._pad_id}).long())[0]\n"
            "    decode = lambda ids, memory, padding: model(decoder_input_ids=ids, "
            "encoder_outputs=BaseModelOutput(memory), attention_mask=(~padding).long(), "
            "use_cache=False).logits\n"
            "    molspec.decode((encode, decode), source_ids, ...)  # after model.eval()"
        )

    @contextmanager
    def _refused(self) -> Iterator[None]:
        """Turn errors of classes with interfaces of their own into ValueError."""
        try:
            yield
        except (AttributeError, AssertionError, TypeError, KeyError, RuntimeError) as error:
            raise ValueError(self._refusal(error)) from error

    def encode(self, rows: Sequence[int], sources: Sequence[Sequence[int]]) -> None:
        """Encode sources into free rows, and the keys and values of their memories."""
        source_ids = pad_right(sources, self._pad_id).to(self._device)
        lengths = [len(source) for source in sources]
        columns = torch.arange(source_ids.shape[1], device=self._device)
        visible = (columns < torch.tensor(lengths, device=self._device)[:, None]).long()
        encoder = self._model.get_encoder()
        output = encoder(input_ids=source_ids, attention_mask=visible)
        memory, self._output = output.last_hidden_state, type(output)
        cache = EncoderDecoderCache(DynamicCache(), DynamicCache())
        target_ids = torch.full((len(sources), 1), self._bos_id, device=self._device)
        self._decode(target_ids, memory, visible, cache)
        keys_values = [
            torch.stack((layer.keys, layer.values)) for layer in cache.cross_attention_cache.layers
        ]
        self._memories.store(rows, memory, lengths)
        self._memory_caches.store(rows, torch.stack(keys_values).permute(2, 4, 0, 1, 3, 5), lengths)

    def _logits(self, call: RowsCall, block_count: int) -> Tensor:
        cache = self._cache(call)
        target_ids = on_device(call.token_ids, self._device)
        memory, padding = self._memories.gather(call.memories)
        logits = self._decode(target_ids, memory, (~padding).long(), cache)
        rows, columns = (on_device(each, self._device) for each in (call.rows, call.columns))
        self._store(call, rows, columns + call.first, cache, block_count)
        return logits[rows, columns]

    def _decode(
        self, target_ids: Tensor, memory: Tensor, visible: Tensor, cache: EncoderDecoderCache | None
    ) -> Tensor:
        """Logits [row, column, vocab] after target ids, which join the cache if there is one."""
        logits: Tensor = self._model(
            decoder_input_ids=target_ids,
            encoder_outputs=self._output(last_hidden_state=memory),
            attention_mask=visible,
            use_cache=cache is not None,
            return_dict=True,
            **{self._cache_argument: cache},
        ).logits
        check_logits(logits, target_ids)
        return logits

    def _cache(self, call: RowsCall) -> EncoderDecoderCache:
        """The cache of a call's rows: their first columns, and their memories."""
        values, _ = self._memory_caches.gather(call.memories)
        if self._cross_cache is None or self._cross_cache[0] is not values:
            self._cross_cache = values, _filled(values)
        prefix = _filled(self._pool[on_device(call.cached_slots, self._device)])
        return EncoderDecoderCache(prefix, self._cross_cache[1])

    def _store(
        self,
        call: RowsCall,
        rows: Tensor,
        columns: Tensor,
        cache: EncoderDecoderCache,
        block_count: int,
    ) -> None:
        """Put the keys and values of evaluated nodes into their slots."""
        keys_values = torch.stack(
            [
                torch.stack((layer.keys[rows, :, columns], layer.values[rows, :, columns]), dim=1)
                for layer in cache.self_attention_cache.layers
            ],
            dim=1,
        )
        if block_count * BLOCK_POSITIONS > len(self._pool):
            old = self._pool
            size = max(2 * len(old), block_count * BLOCK_POSITIONS)
            self._pool = keys_values.new_zeros(size, *keys_values.shape[1:])
            if len(old):
                self._pool[: len(old)] = old
        self._pool[on_device(call.slots, self._device)] = keys_values


def _filled(keys_values: Tensor) -> DynamicCache:
    """A cache of keys and values [row, column, layer, 2, head, head_dim]."""
    cache = DynamicCache()
    if keys_values.shape[1]:
        for index, layer in enumerate(keys_values.permute(2, 3, 0, 4, 1, 5)):
            cache.update(layer[0], layer[1], index)
    return cache
