"""`molspec.compile`: a PyTorch module as a model of the native engine, with the same outputs."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, overload

import torch
from torch import Tensor, nn

from molspec.checkpoints import Checkpoint, hugging_face
from molspec.drop_in.measure import measure
from molspec.engine.devices import Engine, by_name, choose_device, make_engine
from molspec.engine.torch.adapters import adapt, device_of, evaluating, is_hugging_face
from molspec.engine.torch.generation import generation_settings, warn_of_processors
from molspec.engine.torch.module import EncoderDecoder
from molspec.engine.torch.probing import check_decoder
from molspec.fields import check_count
from molspec.model.spec import MOST_POSITIONS, ModelSpec
from molspec.model.transformer import Transformer
from molspec.predictor import Model
from molspec.text import Vocabulary

#: No token: while a module is compiled, nothing is padding.
_NO_ID = -1
#: Tokens on which a decoder is called once before it is measured.
_PROBED = 8
#: Maximum difference from the engine's twin in float64, which adds in another order.
_TOLERANCE = 1e-7
#: Positions compared, beyond those whose relative positions differ: a module may see a window only.
_COMPARED = 256
#: T5 computes its norms in float32, whatever its type.
_RMS_TOLERANCE = 1e-3


@overload
def compile(  # noqa: A001 - named as torch.compile is
    module: nn.Module,
    vocabulary: None = None,
    dtype: str | torch.dtype = ...,
    device: str | torch.device = ...,
    max_positions: int = ...,
    source_bos: bool | None = ...,
    source_eos: bool | None = ...,
    target_bos: bool | None = ...,
) -> Engine: ...
@overload
def compile(  # noqa: A001
    module: nn.Module,
    vocabulary: Vocabulary,
    dtype: str | torch.dtype = ...,
    device: str | torch.device = ...,
    max_positions: int = ...,
    source_bos: bool | None = ...,
    source_eos: bool | None = ...,
    target_bos: bool | None = ...,
) -> Model: ...
def compile(  # noqa: A001
    module: nn.Module,
    vocabulary: Vocabulary | None = None,
    dtype: str | torch.dtype = "float32",
    device: str | torch.device = "cpu",
    max_positions: int = 512,
    source_bos: bool | None = None,
    source_eos: bool | None = None,
    target_bos: bool | None = None,
) -> Engine | Model:
    """Turn a module into a model of the native engine, with the same outputs.

    module: one on torch.nn.Transformer's layers, with `encode_src` and `decode_tgt` (Andronov et
        al.); molspec's own training twin; or BART, Marian or T5 of transformers. It is copied, not
        changed, and the result is compared with it.
    vocabulary: the module's tokens. With them the result answers SMILES (`Model.predict`). Without
        them it is an engine for token ids: `molspec.decode(engine, source_ids, ...)`.
    dtype, device: of the result, as for `load`.
    max_positions: longest source or target, if the module does not define it.
    source_bos, source_eos: whether sources need the vocabulary's BOS and EOS. By default molspec's
        own twin decides it; Marian and T5 need EOS, others need both.
    target_bos: whether the model writes BOS after the token that its decoder starts with, as BART
        does if transformers trained it. By default it does not.

    Raises ValueError, naming the part of the module that the engine lacks. `molspec.decode` takes
    such a module unchanged.
    """
    dtype = by_name(dtype)
    device = choose_device(device, dtype)
    max_positions = check_count("max_positions", max_positions, MOST_POSITIONS)
    if vocabulary is not None and not isinstance(vocabulary, Vocabulary):
        raise ValueError(
            f"vocabulary is a {type(vocabulary).__name__}: expected a molspec.Vocabulary"
        )
    if not isinstance(module, nn.Module):
        raise ValueError(
            f"module is a {type(module).__name__}: expected a torch.nn.Module; "
            "molspec.decode takes a pair of callables"
        )
    double: Any = copy.deepcopy(module).double()
    with evaluating(double):
        if is_hugging_face(double):
            warn_of_processors(generation_settings(module), "molspec.compile", 2)
            spec, weights = hugging_face.convert(
                double.config.to_dict(), double.state_dict(), max_positions
            )
            own: EncoderDecoder = _hugging_face(double)
        else:
            own = adapt(double, _NO_ID, None)
            check_decoder(own, [1], min(_PROBED, max_positions))
            if isinstance(double, Transformer):
                spec, weights = double.spec, double.state_dict()
            else:
                spec, weights = measure(double, own, max_positions)
        _compare(own, spec, weights)
    weights = {name: weight.detach().float().cpu() for name, weight in weights.items()}
    spec = replace(
        spec,
        source_bos=spec.source_bos if source_bos is None else source_bos,
        source_eos=spec.source_eos if source_eos is None else source_eos,
        target_bos=spec.target_bos if target_bos is None else target_bos,
    )
    if vocabulary is None:
        return make_engine(spec, weights, device, dtype)
    return Model(Checkpoint(spec, weights, vocabulary), dtype, device)


def _hugging_face(model: Any) -> EncoderDecoder:
    """The encoder and decoder of a model of transformers as functions, without its cache."""

    def encode(source_ids: Tensor) -> Tensor:
        memory: Tensor = model.get_encoder()(input_ids=source_ids).last_hidden_state
        return memory

    def decode(target_ids: Tensor, memory: Tensor, mask: Tensor, _: Tensor | None) -> Tensor:
        logits: Tensor = model(
            decoder_input_ids=target_ids, encoder_outputs=(memory,), use_cache=False
        ).logits
        return logits

    return EncoderDecoder(encode, decode, False, _NO_ID, device_of(model))


def _compare(own: EncoderDecoder, spec: ModelSpec, weights: Mapping[str, Tensor]) -> None:
    """Raise ValueError unless the spec and the weights give the module's own logits.

    On the upper half of the ids: special tokens, which modules may mask, mostly have the lowest.
    """
    twin = Transformer(spec, dropout=0.0).to(own.device).double().eval()
    twin.load_state_dict(dict(weights))
    generator = torch.Generator("cpu").manual_seed(0)  # not torch's default device

    def ids(size: int, length: int) -> Tensor:
        bounds = size // 2, max(size - 1, 1)
        drawn = torch.randint(*bounds, (2, length), generator=generator, device="cpu")
        return drawn.to(own.device)

    reach = spec.relative_max_distance if spec.positions == "relative" else 0
    length = min(reach + _COMPARED, spec.max_positions)
    source_ids = ids(spec.source_vocab_size, length)
    target_ids = ids(spec.target_vocab_size, length)
    mask = torch.zeros_like(source_ids, dtype=torch.bool)
    expected = own.decode_unpadded(target_ids, own.encode(source_ids), mask)
    made = twin.decode(target_ids, twin.encode(source_ids, mask), mask)
    if float(expected.logsumexp(dim=-1).abs().max()) < _TOLERANCE:  # it ends with log_softmax
        made = made.log_softmax(dim=-1)
    difference = float((made - expected).abs().max())
    tolerance = _RMS_TOLERANCE if spec.norm_kind == "rms" else _TOLERANCE
    if not difference <= tolerance * max(1.0, float(expected.abs().max())):
        raise ValueError(
            f"the module's logits differ by {difference:.1g} from those of the layers found in it: "
            "it does something else too; molspec.decode takes it as it is"
        )
