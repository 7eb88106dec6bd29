"""The models, and for each the two functions that `molspec.decode` and `molspec.compile` take.

Sizes are those of the publication, or of the Molecular Transformer where it says none. Weights are
random and large, so that every token affects all later ones: trained weights of most of these
models are not public, and times do not depend on them where nothing is drafted.
"""

from __future__ import annotations

import importlib.metadata
import math
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

from published.sources import Repository, classes, module

VOCAB, WIDTH, HEADS, INNER, LAYERS, LONGEST = 64, 256, 8, 2048, 4, 200
PAD, BOS, EOS = 0, 1, 2

#: As `molspec.decode` takes them; models of other people have no types.
Encode = Callable[[Tensor], Any]
Decode = Callable[[Tensor, Tensor, Tensor], Any]


@dataclass(frozen=True)
class Published:
    """A model: where it is from, how it is made of its files, and its glue."""

    source: Repository | str
    make: Callable[[Path], nn.Module]
    glue: Callable[[Any], tuple[Encode, Decode]]
    #: PAD, BOS and EOS.
    special: tuple[int, int, int] = (PAD, BOS, EOS)


def triangle(length: int) -> Tensor:
    """True where a position may look."""
    return torch.ones(length, length, dtype=torch.bool).tril()


def randomised(model: nn.Module) -> nn.Module:
    """Set weights so large that every token affects all later ones, and all biases."""
    generator = torch.Generator().manual_seed(1)
    for name, parameter in model.named_parameters():
        if parameter.dim() > 1:
            embeds = len(parameter) == VOCAB and "out" not in name and "fc" not in name
            scale = 0.8 if "att" in name else 2.0
            if name.endswith(".q.weight"):  # T5 does not scale queries
                scale /= math.sqrt(WIDTH / HEADS)
            std = 0.1 if embeds else scale / math.sqrt(parameter.shape[1])
            nn.init.normal_(parameter, std=std, generator=generator)
        elif name.endswith("bias"):
            nn.init.normal_(parameter, std=0.1, generator=generator)
    return model.eval()


def _trevett(found: SimpleNamespace) -> nn.Module:
    """The classes of Trevett's sixth tutorial, which others took and changed."""
    sizes = (VOCAB, WIDTH, LAYERS, HEADS, INNER, 0.1)
    if "loader_train" in found.Seq2Seq.__init__.__code__.co_varnames:
        stacks = found.Encoder(*sizes, LONGEST, "cpu"), found.Decoder(*sizes, LONGEST, "cpu")
        made: nn.Module = found.Seq2Seq(*stacks, PAD, PAD, "cpu", None, "")
    else:
        encoder = found.Encoder(*sizes, "cpu", LONGEST)
        made = found.Seq2Seq(encoder, found.Decoder(*sizes, "cpu", LONGEST), PAD, PAD, "cpu")
    return made


def trevett_glue(model: Any) -> tuple[Encode, Decode]:
    def encode(source: Tensor) -> Any:
        return model.encoder(source, model.make_src_mask(source))

    def decode(target: Tensor, memory: Tensor, mask: Tensor) -> Any:
        allowed = ~mask[:, None, None]
        return model.decoder(target, memory, model.make_trg_mask(target), allowed)[0]

    return encode, decode


def annotated_glue(model: Any) -> tuple[Encode, Decode]:
    def encode(source: Tensor) -> Any:
        return model.encode(source, (source != PAD).unsqueeze(-2))

    def decode(target: Tensor, memory: Tensor, mask: Tensor) -> Any:
        triangle = torch.ones(target.shape[1], target.shape[1]).tril()[None]
        return model.generator(model.decode(memory, ~mask[:, None], target, triangle))

    return encode, decode


def tutorial_glue(model: Any) -> tuple[Encode, Decode]:
    def embedded(ids: Tensor, embedding: Any) -> Any:  # the model has columns for rows
        return model.positional_encoding(embedding(ids.T))

    def encode(source: Tensor) -> Any:
        hidden = embedded(source, model.src_tok_emb)
        return model.transformer.encoder(hidden, src_key_padding_mask=source == PAD).transpose(0, 1)

    def decode(target: Tensor, memory: Tensor, mask: Tensor) -> Any:
        hidden = model.transformer.decoder(
            embedded(target, model.tgt_tok_emb),
            memory.transpose(0, 1),
            tgt_mask=~triangle(target.shape[1]),
            memory_key_padding_mask=mask,
        )
        return model.generator(hidden).transpose(0, 1)

    return encode, decode


def chemformer_glue(model: Any) -> tuple[Encode, Decode]:
    def encode(source: Tensor) -> Any:
        columns = {"encoder_input": source.T, "encoder_pad_mask": (source == PAD).T}
        return model.encode(columns).transpose(0, 1)

    def decode(target: Tensor, memory: Tensor, mask: Tensor) -> Any:
        columns = {"decoder_input": target.T, "memory_input": memory.transpose(0, 1)}
        hidden = model.decode({**columns, "memory_pad_mask": mask.T})
        return model.token_fc(hidden).transpose(0, 1)

    return encode, decode


def retrochimera_glue(model: Any) -> tuple[Encode, Decode]:
    def encode(source: Tensor) -> Any:
        return model.encode(
            {"encoder_input": source, "encoder_padding_mask": source == model.pad_token_id}
        )

    def decode(target: Tensor, memory: Tensor, mask: Tensor) -> Any:
        batch = {"decoder_input": target, "decoder_padding_mask": torch.zeros_like(target).bool()}
        return model.decode({**batch, "memory_input": memory, "memory_padding_mask": mask})[1]

    return encode, decode


def opennmt_glue(model: Any) -> tuple[Encode, Decode]:
    def encode(source: Tensor) -> Any:
        return model.encoder(source[..., None], (source != PAD).sum(1))[0]

    def decode(target: Tensor, memory: Tensor, mask: Tensor) -> Any:
        model.decoder.init_state(memory, None, None)  # it reads the length of a source
        lengths = (~mask).sum(1)
        hidden, _ = model.decoder(target[..., None], memory, src_len=lengths)
        return model.generator(hidden)

    return encode, decode


def x_transformers_glue(model: Any) -> tuple[Encode, Decode]:
    def encode(source: Tensor) -> Any:
        return model.encoder(source, mask=source != PAD, return_embeddings=True)

    def decode(target: Tensor, memory: Tensor, mask: Tensor) -> Any:
        return model.decoder.net(target, context=memory, context_mask=~mask)

    return encode, decode


def _tutorial(sources: Path) -> nn.Module:
    found = classes(TUTORIAL.folder(sources) / TUTORIAL.paths[0])
    made: nn.Module = found.Seq2SeqTransformer(LAYERS, LAYERS, WIDTH, HEADS, VOCAB, VOCAB, INNER)
    return made


def _annotated(sources: Path) -> nn.Module:
    found = classes(ANNOTATED.folder(sources) / ANNOTATED.paths[0])
    made: nn.Module = found.make_model(VOCAB, VOCAB, LAYERS, WIDTH, INNER, HEADS)
    return made


def _reinvent(sources: Path) -> nn.Module:
    name = "reinvent.models.transformer.core.network.encode_decode.model"
    found = module(REINVENT.folder(sources), name)
    made: nn.Module = found.EncoderDecoder(VOCAB, LAYERS, HEADS, WIDTH, INNER)
    return made


def _chemformer(sources: Path) -> nn.Module:
    found = module(CHEMFORMER.folder(sources), "aizynthmodels.chemformer.models.bart")
    made: nn.Module = found.BARTModel(
        d_model=WIDTH, num_layers=LAYERS, num_heads=HEADS, d_feedforward=INNER, activation="gelu",
        max_seq_len=LONGEST, vocabulary_size=VOCAB, pad_token_idx=PAD, dropout=0.1,
        optimizer={}, n_predictions=0, task="backward_prediction",
    )  # fmt: skip
    return made


def _retrochimera(sources: Path) -> nn.Module:
    found = module(RETROCHIMERA.folder(sources), "retrochimera.models.smiles_transformer")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "vocab.txt"
        path.write_text("\n".join(f"[{i}Xx]" for i in range(VOCAB - 4)))  # four are its own
        made: nn.Module = found.SmilesTransformerModel(
            str(path), WIDTH, LAYERS, HEADS, INNER, max_seq_len=LONGEST,
            learning_rate=1e-3, optimizer_betas=(0.9, 0.999),
        )  # fmt: skip
    return made


def _opennmt(positions: str) -> Callable[[Path], nn.Module]:
    def make(sources: Path) -> nn.Module:
        del sources
        root = Path(str(importlib.metadata.distribution("OpenNMT-py").locate_file("")))
        encoders, decoders, embeddings = (
            module(root, f"onmt.{name}")
            for name in ("encoders.transformer", "decoders.transformer", "modules.embeddings")
        )
        rotary = positions == "rotary"
        sizes: dict[str, Any] = {
            "d_model": WIDTH,
            "heads": HEADS,
            "d_ff": INNER,
            "num_layers": LAYERS,
        }
        rest: dict[str, Any] = {"dropout": 0.1, "attention_dropout": 0.1}
        rest |= {"max_relative_positions": -1 if rotary else 0, "relative_positions_buckets": 0}
        tables = [
            embeddings.Embeddings(WIDTH, VOCAB, PAD, position_encoding=not rotary) for _ in range(2)
        ]
        made = nn.Module()
        made.encoder = encoders.TransformerEncoder(embeddings=tables[0], **sizes, **rest)
        made.decoder = decoders.TransformerDecoder(
            embeddings=tables[1], copy_attn=False, self_attn_type="scaled-dot",
            aan_useffn=False, full_context_alignment=False, alignment_layer=-3,
            alignment_heads=0, **sizes, **rest,
        )  # fmt: skip
        made.generator = nn.Linear(WIDTH, VOCAB)
        return made

    return make


def _x_transformers(**options: Any) -> Callable[[Path], nn.Module]:
    def make(sources: Path) -> nn.Module:
        del sources
        from x_transformers import XTransformer

        sides: dict[str, Any] = {}
        for side in ("enc", "dec"):
            sizes = {"num_tokens": VOCAB, "depth": LAYERS, "heads": HEADS, "max_seq_len": LONGEST}
            sides |= {f"{side}_{name}": size for name, size in {**sizes, **options}.items()}
            sides[f"{side}_attn_dim_head"] = WIDTH // HEADS
        made: nn.Module = XTransformer(dim=WIDTH, pad_value=PAD, **sides)
        return made

    return make


ANNALOG = Repository(
    "DVNecromancer/ANNalog",
    "7ee4bf64d978ef371a3168b1339282dceaa510b5",
    ("annalog_package/annalog/model_files/seq2seq_attention.py",),
)
TREVETT = Repository(
    "bentrevett/pytorch-seq2seq",
    "b3cd54c72cd6e4e63f672d334c795b4fe744ef92",
    ("legacy/6 - Attention is All You Need.ipynb",),
)
UNCORRUPT = Repository(
    "LindeSchoenmaker/SMILES-corrector",
    "63dfc89970edf6b920f3bec3d2f06ce691bc42ce",
    ("src/transformer.py",),
)
ANNOTATED = Repository(
    "harvardnlp/annotated-transformer",
    "debc9fd747bb2123160a98046ad1c2d4da44a567",
    ("the_annotated_transformer.py",),
)
REINVENT = Repository(
    "MolecularAI/REINVENT4",
    "43094673bf0babf858814df458e42c90d7f0cf94",
    ("reinvent/models/transformer",),
)
TUTORIAL = Repository(
    "pytorch/tutorials",
    "03c85c6b40201567bf24b8b53504e173ff660480",
    ("beginner_source/translation_transformer.py",),
)
CHEMFORMER = Repository(
    "MolecularAI/aizynthmodels",
    "f9262c2c44720a194ae67a37c35b411b20aec2c8",
    ("aizynthmodels",),
)
RETROCHIMERA = Repository(
    "microsoft/retrochimera",
    "de1cb20dee39fde6b16e2c71cb13c47cf2bb6eec",
    ("retrochimera",),
)


def _of_trevett(repository: Repository, **stand_ins: Any) -> Callable[[Path], nn.Module]:
    return lambda sources: _trevett(
        classes(repository.folder(sources) / repository.paths[0], **stand_ins)
    )


PUBLISHED: dict[str, Published] = {
    "annalog": Published(ANNALOG, _of_trevett(ANNALOG), trevett_glue),
    "Trevett's tutorial": Published(TREVETT, _of_trevett(TREVETT), trevett_glue),
    "uncorrupt-smiles": Published(
        UNCORRUPT, _of_trevett(UNCORRUPT, Convo=object, DataLoader=object), trevett_glue
    ),
    "The Annotated Transformer": Published(ANNOTATED, _annotated, annotated_glue),
    "REINVENT4, Mol2Mol": Published(REINVENT, _reinvent, annotated_glue),
    "PyTorch's tutorial": Published(TUTORIAL, _tutorial, tutorial_glue),
    "Chemformer": Published(CHEMFORMER, _chemformer, chemformer_glue),
    "RetroChimera": Published(RETROCHIMERA, _retrochimera, retrochimera_glue, (2, 0, 1)),
    "OpenNMT-py": Published("OpenNMT-py", _opennmt("sinusoidal"), opennmt_glue),
    "OpenNMT-py, rotary": Published("OpenNMT-py", _opennmt("rotary"), opennmt_glue),
    "x-transformers": Published("x-transformers", _x_transformers(), x_transformers_glue),
    "x-transformers, rotary": Published(
        "x-transformers",
        _x_transformers(rotary_pos_emb=True, use_abs_pos_emb=False),
        x_transformers_glue,
    ),
}


def made(name: str, sources: Path) -> nn.Module:
    """The model of this name, with random weights; its files are kept in `sources`."""
    return randomised(PUBLISHED[name].make(sources))
