"""`molspec.compile`: a PyTorch module as a model of the native engine."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, overload

import torch
from torch import Tensor, nn

from molspec.checkpoints import Checkpoint
from molspec.common.console import prefixing
from molspec.common.fields import check_count
from molspec.drop_in import conventions, proving, stacks
from molspec.drop_in.recording import in_float64, widened
from molspec.engine.devices import Engine, by_name, choose_device, make_engine
from molspec.engine.torch import adapters, generation, probing
from molspec.engine.torch.module import EncoderDecoder
from molspec.model import foreign, transformer
from molspec.model.spec import MOST_POSITIONS, ModelSpec
from molspec.prediction.model import Model
from molspec.text import Vocabulary

#: The most positions of a model, if none are given.
_POSITIONS = 512
#: Tokens on which a decoder is called once before it is recorded.
_PROBED = 8


@overload
def compile(  # noqa: A001 - named as torch.compile is
    module: nn.Module,
    vocabulary: None = None,
    dtype: str | torch.dtype = ...,
    device: str | torch.device = ...,
    max_positions: int | None = ...,
    source_bos: bool | None = ...,
    source_eos: bool | None = ...,
    target_bos: bool | None = ...,
    *,
    encode: Callable[[Tensor], Tensor] | None = ...,
    decode: Callable[..., Tensor] | None = ...,
) -> Engine: ...
@overload
def compile(  # noqa: A001
    module: nn.Module,
    vocabulary: Vocabulary,
    dtype: str | torch.dtype = ...,
    device: str | torch.device = ...,
    max_positions: int | None = ...,
    source_bos: bool | None = ...,
    source_eos: bool | None = ...,
    target_bos: bool | None = ...,
    *,
    encode: Callable[[Tensor], Tensor] | None = ...,
    decode: Callable[..., Tensor] | None = ...,
) -> Model: ...
def compile(  # noqa: A001
    module: nn.Module,
    vocabulary: Vocabulary | None = None,
    dtype: str | torch.dtype = "float32",
    device: str | torch.device = "cpu",
    max_positions: int | None = None,
    source_bos: bool | None = None,
    source_eos: bool | None = None,
    target_bos: bool | None = None,
    *,
    encode: Callable[[Tensor], Tensor] | None = None,
    decode: Callable[..., Tensor] | None = None,
) -> Engine | Model:
    """Turn a module into a model of the native engine.

    Its logits are those of the module for a source without padding: in float64 they differ by at
    most 1e-7 of the largest. A module that masks its own PAD in targets and emits it differs behind
    it: for the engine PAD is a token.

    module: an encoder-decoder of the standard family, known by what it computes: one with
        `encode_src` and `decode_tgt` (Andronov et al.), one of transformers, or any other with
        `encode` and `decode`. While it is compiled it holds float64, and no other thread may use
        it; afterwards it is as before.
    encode, decode: two functions over the module, as `molspec.decode` takes them.
    vocabulary: the module's tokens. With them the result answers SMILES (`Model.predict`), and
        `Model.save` writes it for `load` and `molspec serve`. Without them it is an engine for
        token ids: `molspec.decode(engine, source_ids, ...)`.
    dtype, device: of the result, as for `load`.
    max_positions: longest source or target, if the config of a model of transformers has none. By
        default 512, or the longest at which the module works.
    source_bos, source_eos: whether sources need the vocabulary's BOS and EOS. By default molspec's
        own twin decides it; models of transformers without a BOS need EOS, others need both.
    target_bos: whether the model writes BOS after the token that its decoder starts with, as BART
        does if transformers trained it. By default it does not.

    Raises ValueError, naming the part of the module that the engine lacks and the nearest
    difference. `molspec.decode` takes such a module unchanged.
    """
    dtype = by_name(dtype)
    device = choose_device(device, dtype)
    if max_positions is not None:
        max_positions = check_count("max_positions", max_positions, MOST_POSITIONS)
    _check(module, vocabulary, encode, decode)
    module = adapters.unwrapped(module) if encode is None else module
    foreign.check_own(name for name, _ in module.named_parameters())
    pad_id = None if vocabulary is None else vocabulary.pad_id
    spec_options: dict[str, Any] = {}
    if encode is None and adapters.is_hugging_face(module):
        config: Any = module.config
        generation.warn_of_processors(generation.generation_settings(module), "molspec.compile", 2)
        encode, decode = _hugging_face(module)
        max_positions = _longest(module) or max_positions
        pad_id = config.pad_token_id
        spec_options = {
            "start_id": getattr(config, "decoder_start_token_id", None),
            "source_bos": getattr(config, "bos_token_id", None) is not None,
        }
    interface = module if encode is None else (encode, decode)
    spec, weights = _proven(module, interface, max_positions, pad_id)
    given = {"source_bos": source_bos, "source_eos": source_eos, "target_bos": target_bos}
    spec_options |= {name: value for name, value in given.items() if value is not None}
    spec = replace(spec, **spec_options)
    if vocabulary is None:
        return make_engine(spec, weights, device, dtype)
    checkpoint = Checkpoint(spec, weights, vocabulary)
    model = Model(checkpoint, dtype, device)
    model.compiled = checkpoint
    return model


def _proven(
    module: nn.Module, interface: object, max_positions: int | None, pad_id: int | None
) -> tuple[ModelSpec, dict[str, Tensor]]:
    """The spec and the weights with which the engine computes what the module does."""
    with torch.inference_mode(False), adapters.evaluating(module), in_float64(module):
        own = adapters.adapt(interface, 0 if pad_id is None else pad_id, adapters.device_of(module))
        own = replace(own, encode=widened(own.encode), decode=widened(own.decode))
        faults = (AttributeError, RuntimeError, TypeError)
        with prefixing("the module fails when it is called in float64: ", ValueError, faults):
            probing.check_decoder(own, [1], min(_PROBED, max_positions or _PROBED))
        others = (AssertionError, IndexError, *faults)
        with prefixing("the module's layers are not those of the engine: ", ValueError, others):
            if isinstance(module, transformer.Transformer):
                spec, weights = module.spec, dict(module.state_dict())
            else:
                spec, weights = _find(own, max_positions)
            proving.prove(own, spec, weights, interface is module or pad_id is not None, pad_id)
    return spec, {name: weight.detach().float().cpu() for name, weight in weights.items()}


def _check(module: object, vocabulary: object, encode: object, decode: object) -> None:
    """Raise ValueError for arguments of another kind."""
    if vocabulary is not None and not isinstance(vocabulary, Vocabulary):
        raise ValueError(
            f"vocabulary is a {type(vocabulary).__name__}: expected a molspec.Vocabulary"
        )
    if isinstance(module, torch.jit.ScriptModule):
        raise ValueError("module is scripted: expected the torch.nn.Module that it was made from")
    if not isinstance(module, nn.Module):
        raise ValueError(
            f"module is a {type(module).__name__}: expected a torch.nn.Module; give two functions "
            "over it as encode and decode"
        )
    if (encode is None) != (decode is None) or not (encode is None or callable(encode)):
        kinds = f"encode is a {type(encode).__name__} and decode a {type(decode).__name__}"
        raise ValueError(f"{kinds}: expected two functions, or neither")


def _find(own: EncoderDecoder, max_positions: int | None) -> tuple[ModelSpec, stacks.Weights]:
    """Spec and weights, if no number of positions is given with as many as the module has."""
    longest = max_positions or _POSITIONS
    while True:
        try:
            return conventions.find(own, longest)
        except stacks.PositionsError as error:  # of the encoder, then of the decoder
            if max_positions is not None or not error.longest:
                raise
            longest = error.longest


def _hugging_face(model: Any) -> tuple[Callable[[Tensor], Tensor], Callable[..., Tensor]]:
    """The encoder and decoder of a model of transformers as functions, without its cache."""
    from transformers.modeling_outputs import BaseModelOutput

    pad_id = model.config.pad_token_id

    def encode(source_ids: Tensor) -> Tensor:
        visible = torch.ones_like(source_ids) if pad_id is None else (source_ids != pad_id).long()
        encoded = model.get_encoder()(input_ids=source_ids, attention_mask=visible)
        memory: Tensor = encoded.last_hidden_state
        return memory

    def decode(target_ids: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
        logits: Tensor = model(
            decoder_input_ids=target_ids,
            encoder_outputs=BaseModelOutput(last_hidden_state=memory),
            attention_mask=(~mask).long(),
            use_cache=False,
        ).logits
        return logits

    return encode, decode


def _longest(model: Any) -> int | None:
    """Positions of a model of transformers, if its config has them."""
    found = generation.longest_sequence(model) or getattr(model.config, "n_positions", None)
    return None if found is None else min(found, MOST_POSITIONS)
