"""Warns of Hugging Face's generation settings that change a model's distributions."""

import warnings
from collections.abc import Mapping
from typing import Any

_EMPTY: tuple[object, ...] = (None, [], {})
#: Settings by which `generate` changes distributions, and the values that switch them off.
_PROCESSORS: dict[str, tuple[object, ...]] = {
    **dict.fromkeys(("forced_bos_token_id", "exponential_decay_length_penalty"), (None,)),
    **dict.fromkeys(("forced_decoder_ids", "bad_words_ids", "force_words_ids"), _EMPTY),
    **dict.fromkeys(("suppress_tokens", "begin_suppress_tokens", "sequence_bias"), _EMPTY),
    **dict.fromkeys(("watermarking_config", "stop_strings"), _EMPTY),
    **dict.fromkeys(("no_repeat_ngram_size", "encoder_no_repeat_ngram_size"), (None, 0)),
    **dict.fromkeys(("min_length", "min_new_tokens", "diversity_penalty"), (None, 0)),
    **dict.fromkeys(("repetition_penalty", "encoder_repetition_penalty"), (None, 1)),
}
#: Those of its search, likewise; a length of 20 is the default of older transformers.
_SEARCH: dict[str, tuple[object, ...]] = {
    **dict.fromkeys(("num_beams", "num_return_sequences", "length_penalty"), (None, 1)),
    **dict.fromkeys(("max_length", "max_new_tokens"), (None, 20)),
    "do_sample": (None, False),
}

#: The settings that name the special ids of `decode`.
_IDS = {"bos_id": "decoder_start_token_id", "eos_id": "eos_token_id", "pad_id": "pad_token_id"}


def generation_settings(model: Any) -> Mapping[str, Any]:
    """The generation config of a model in memory; empty if it has none."""
    config = getattr(model, "generation_config", None)
    return {} if config is None else config.to_dict()


def longest_sequence(model: Any) -> int | None:
    """Maximum ids of a source and of a target, if a config of the model or its stacks has them."""
    stacks = (model, model.get_encoder(), model.get_decoder())
    configs = (getattr(stack, "config", None) for stack in stacks)  # FSMT's stacks have none
    found = (getattr(config, "max_position_embeddings", None) for config in configs)
    return min((number for number in found if number is not None), default=None)


def warn_of_ids(model: Any, given: Mapping[str, int], who: str, depth: int) -> None:
    """Warn of special ids that a model's configs contradict.

    given: bos_id, eos_id and pad_id. There are `depth` calls between the warning and the caller of
    `who`.
    """
    settings = generation_settings(model)
    for name, setting in _IDS.items():
        known = settings.get(setting)
        known = getattr(model.config, setting, None) if known is None else known
        expected = known if isinstance(known, list | tuple) else [known]
        if known is not None and given[name] not in expected:
            warnings.warn(
                f"{name} is {given[name]}, but the model's config has {setting} {known}: {who} "
                "takes what is given",
                stacklevel=depth + 1,
            )


def with_generation(
    config: Mapping[str, Any], settings: Mapping[str, Any], who: str, depth: int
) -> dict[str, Any]:
    """A model's config with the special ids of its generation config, which decide `generate`.

    Warns of ids that differ, as `warn_of_processors` does. Raises ValueError for several ids of
    EOS: `who` ends an answer at one.
    """
    merged = dict(config)
    for name in _IDS.values():
        own, said = config.get(name), settings.get(name)
        said = said[0] if isinstance(said, list) and len(said) == 1 else said
        if isinstance(said, list):
            raise ValueError(f"generation_config.json has {name} {said}: expected one")
        if said is not None and own not in (None, said, [said]):
            warnings.warn(
                f"generation_config.json has {name} {said}, config.json {own}: {who} takes {said}, "
                "as generate does",
                stacklevel=depth + 1,
            )
        merged[name] = own if said is None else said
    return merged


def warn_of_processors(
    settings: Mapping[str, Any], who: str, depth: int, *, search: bool = True
) -> None:
    """Warn if a generation config makes `generate` change the model's distributions, or `search`.

    `who` does not apply that; there are `depth` calls between the warning and the caller of `who`.
    """
    known = {**_PROCESSORS, **(_SEARCH if search else {})}
    found = [name for name, off in known.items() if settings.get(name) not in off]
    if found:
        warnings.warn(
            f"generation_config sets {', '.join(found)}: {who} ranks by the model's own "
            "distributions, searches as its own options say, and does not apply that",
            stacklevel=depth + 1,
        )
