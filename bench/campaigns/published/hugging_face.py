"""Encoder-decoders of Hugging Face in the sizes of the other models."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from published import models
from published.models import Decode, Encode

#: Types by the begins of the names of their classes.
TYPES = (
    *("Bart", "MBart", "PLBart", "Pegasus", "BigBirdPegasus", "Blenderbot", "M2M100", "Marian"),
    *("T5", "MT5", "UMT5"),
)
#: The class is not called after generation.
_CLASSES = {"Marian": "MarianMTModel"}


def made(kind: str) -> nn.Module:
    """A model of a type of `TYPES`, with random weights."""
    import transformers

    ids: dict[str, Any] = {
        "pad_token_id": models.PAD,
        "eos_token_id": models.EOS,
        "decoder_start_token_id": models.BOS,
    }
    sizes: dict[str, Any] = {"vocab_size": models.VOCAB, "d_model": models.WIDTH}
    if "T5" in kind:
        sizes |= {
            "d_ff": models.INNER,
            "num_layers": models.LAYERS,
            "num_heads": models.HEADS,
            "d_kv": models.WIDTH // models.HEADS,
        }
    else:
        for side in ("encoder", "decoder"):
            sizes |= {f"{side}_layers": models.LAYERS, f"{side}_attention_heads": models.HEADS}
            sizes |= {f"{side}_ffn_dim": models.INNER}
        sizes |= {"max_position_embeddings": models.LONGEST, "bos_token_id": models.BOS}
        sizes |= {"forced_eos_token_id": None}
    config = getattr(transformers, f"{kind}Config")(**sizes, **ids)
    name = _CLASSES.get(kind, f"{kind}ForConditionalGeneration")
    return models.randomised(getattr(transformers, name)(config))


def glue(model: Any) -> tuple[Encode, Decode]:
    """Its own functions, for its plain loop; `molspec.decode(model, ...)` takes it itself."""

    def encode(source: Tensor) -> Tensor:
        found: Tensor = model.get_encoder()(source, source != models.PAD).last_hidden_state
        return found

    def decode(target: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
        logits: Tensor = model(
            encoder_outputs=(memory,), attention_mask=~mask, decoder_input_ids=target
        ).logits
        return logits

    return encode, decode
