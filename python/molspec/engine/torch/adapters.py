"""Recognises the models of `molspec.decode`: how to call them, and their device."""

import inspect
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import Any

import torch
from torch import Tensor, nn

from molspec.engine.torch.module import EncoderDecoder
from molspec.model.transformer import Transformer

LOOKED_FOR = (
    "a module with encode_src(source_ids, padding_mask) and decode_tgt(target_ids, memory, "
    "memory_padding_mask); a Hugging Face encoder-decoder; molspec's own models; a pair of "
    "callables (encode, decode)"
)


def is_hugging_face(model: object) -> bool:
    """Whether a model is an encoder-decoder of the transformers library, or has its interface."""
    encoder_decoder = getattr(getattr(model, "config", None), "is_encoder_decoder", False)
    return isinstance(model, nn.Module) and bool(encoder_decoder)


def unwrapped(model: Any) -> Any:
    """The model in a wrapper, such as a LightningModule, that is not a supported model itself.

    Raises ValueError for prompts or a prefix of PEFT, which a decoder's calls would leave out.
    """
    adapter: Any = getattr(model, "active_peft_config", None)
    if getattr(adapter, "is_prompt_learning", False):
        raise ValueError(
            f"model has an adapter {adapter.peft_type}: expected a model without learned prompts, "
            "which its generate alone adds; an adapter like LoRA can be merged"
        )
    while isinstance(model, nn.Module) and not (_has_methods(model) or is_hugging_face(model)):
        inner = getattr(model, "module" if isinstance(model, nn.DataParallel) else "model", None)
        if isinstance(model, Transformer) or not isinstance(inner, nn.Module):
            break
        model = inner
    return model


def _has_methods(model: object) -> bool:
    return hasattr(model, "encode_src") and hasattr(model, "decode_tgt")


def adapt(model: object, pad_id: int, device: torch.device | None) -> EncoderDecoder:
    """Wrap a module or a pair of callables as an `EncoderDecoder`.

    `device` is that of the callables' tensors; a module's is that of its parameters. Raises
    ValueError if the model is none of `LOOKED_FOR`.
    """
    if isinstance(model, tuple | list) and len(model) == 2 and all(map(callable, model)):
        encode, decode = model
        return _adapted(encode, decode, pad_id, device or torch.device("cpu"))
    if isinstance(model, Transformer):
        encode, decode = model.encode, model.decode
    elif isinstance(model, nn.Module) and _has_methods(model):
        encode, decode = model.encode_src, model.decode_tgt
    else:
        raise ValueError(
            f"model is a {type(model).__name__}: expected {LOOKED_FOR}{_glue(model, pad_id)}"
        )

    def encode_masked(source_ids: Tensor) -> Tensor:
        memory: Tensor = encode(source_ids, source_ids == pad_id)
        return memory

    return _adapted(encode_masked, decode, pad_id, device_of(model), offset_shape=(-1, 1))


def _glue(model: object, pad_id: int) -> str:
    """Three lines that make a pair of callables of a model's own methods, for messages."""
    if not isinstance(model, nn.Module):
        return ""
    names = [name for name in ("encode", "decode") if hasattr(model, name)]
    if len(names) < 2:
        names = ["encoder", "decoder"]
    first, second = (f"model.{name}{_arguments(model, name)}" for name in names)
    return (
        ". For this class write, with its arguments filled in,\n"
        f"    encode = lambda ids: {first}  # [batch, length, ...]; ids == {pad_id} is padding\n"
        f"    decode = lambda ids, memory, padding: {second}  # causal; the output layer too\n"
        "    molspec.decode((encode, decode), source_ids, ...)  # padding is True at padding"
    )


def _arguments(owner: object, name: str) -> str:
    """The names of a method's arguments, as in a call."""
    method = getattr(owner, name, None)
    method = method.forward if isinstance(method, nn.Module) else method
    return f"({', '.join(inspect.signature(method).parameters)})" if callable(method) else "(...)"


def _adapted(
    encode: Callable[..., Tensor],
    decode: Callable[..., Tensor],
    pad_id: int,
    device: torch.device,
    offset_shape: tuple[int, ...] = (-1,),
) -> EncoderDecoder:
    """Wrap two functions as an `EncoderDecoder`; those of Andronov et al. take offsets [row, 1]."""
    _check_takes("encode", encode, "source_ids")
    _check_takes("decode", decode, "target_ids, memory, memory_padding_mask")
    name = _offset_name(decode)

    def decode_rows(ids: Tensor, memory: Tensor, mask: Tensor, offset: Tensor | None) -> Tensor:
        more = {} if name is None or offset is None else {name: offset.reshape(offset_shape)}
        return decode(ids, memory, mask, **more)

    return EncoderDecoder(encode, decode_rows, name is not None, pad_id, device)


def _check_takes(name: str, function: Callable[..., Any], expected: str) -> None:
    """Raise ValueError if a function cannot take its arguments, as in (decode, encode)."""
    if (signature := _signature(function)) is None:
        return
    count = len(expected.split(", "))
    for more in (0, 1) if name == "decode" else (0,):  # the offset
        try:
            signature.bind(*range(count + more))
        except TypeError:
            continue
        return
    raise ValueError(f"{name} takes {signature}: expected ({expected}); a pair is (encode, decode)")


def _signature(function: Callable[..., Any]) -> inspect.Signature | None:
    """The arguments of a function or a module; None for a builtin without a signature."""
    called = function.forward if isinstance(function, nn.Module) else function
    try:
        return inspect.signature(called)
    except ValueError:
        return None


def device_of(model: nn.Module) -> torch.device:
    """The device of a module's parameters; the CPU if it has none."""
    parameter = next(model.parameters(), None)
    return torch.device("cpu") if parameter is None else parameter.device


def modules_behind(parts: Sequence[Any]) -> list[nn.Module]:
    """Modules that are parts themselves, own a bound method, or are named in a function."""
    found = [getattr(part, "__self__", part) for part in parts]
    for function in filter(inspect.isfunction, parts):
        named = inspect.getclosurevars(function)
        found += [*named.nonlocals.values(), *named.globals.values()]
    modules = (each for each in found if isinstance(each, nn.Module))
    return list({id(each): each for each in modules}.values())


def _offset_name(decode: Callable[..., Any]) -> str | None:
    """The name of a decoder's fourth argument, if it has no default.

    The published code of Andronov et al. has a default there. Then padding on the right is safer:
    attention over nothing but padding is NaN in torch's own layers.
    """
    if (signature := _signature(decode)) is None:
        return None
    parameters = signature.parameters.values()
    several = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    needed = [p.name for p in parameters if p.default is p.empty and p.kind not in several]
    return needed[3] if len(needed) == 4 else None


#: Of modules in evaluation mode, by id: their own mode, and the number of decodes that use them.
#: Only the first of several decodes sees a module's own mode.
_modes: dict[int, bool] = {}
_uses: Counter[int] = Counter()
_held_lock = Lock()


@contextmanager
def evaluating(model: object) -> Iterator[None]:
    """Put modules into evaluation mode, without gradients; restore every submodule's mode.

    Threads may share a module: the last of them restores its mode.
    """
    parts = model if isinstance(model, tuple | list) else (model,)
    owners = [getattr(part, "__self__", part) for part in parts]  # of a bound method
    modules = [m for owner in owners if isinstance(owner, nn.Module) for m in owner.modules()]
    with _held_lock:
        for module in modules:
            _modes.setdefault(id(module), module.training)
            _uses[id(module)] += 1
            module.training = False
    try:
        with torch.no_grad():
            yield
    finally:
        with _held_lock:
            for module in modules:
                _uses[id(module)] -= 1
                if not _uses[id(module)]:
                    del _uses[id(module)]
                    module.training = _modes.pop(id(module))
