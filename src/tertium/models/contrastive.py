"""Folders as contrastive training scripts leave them: a backbone and the MLP it was trained with.

The scripts of SimCSE, ADD and miCSE save a BertForCL or RobertaForCL: the backbone's weights begin
with ``bert.`` or ``roberta.``, the MLP is ``mlp.dense``, and a language-model head may follow.
"""

import warnings
from pathlib import Path

from torch import Tensor

from tertium.errors import TertiumWarning
from tertium.models.published import published_pooling
from tertium.models.weights import read_weights
from tertium.types import Pooling

__all__ = ["MLP", "default_pooling", "trained_mlp"]

MLP = "mlp.dense"


def trained_mlp(folder: Path) -> tuple[Tensor, Tensor] | None:
    """Weight and bias of the MLP in a training script's folder; None in any other folder."""
    weights = read_weights(folder)
    backbone = any(name.startswith(("bert.", "roberta.")) for name in weights)
    if not backbone or f"{MLP}.weight" not in weights:
        return None
    return weights[f"{MLP}.weight"].clone(), weights[f"{MLP}.bias"].clone()


def default_pooling(name: str, folder: Path) -> Pooling:
    """The pooling of a plain transformers folder when none is asked for.

    Args:
        name: what the user called the model, perhaps a hub id.
        folder: where its files are.
    """
    known = published_pooling(name, folder)
    if trained_mlp(folder) is None:
        return known or Pooling.MEAN
    if known is not None:
        return Pooling.CLS_MLP if known is Pooling.POOLER else known
    warnings.warn(
        f"{folder} comes from a contrastive training script and does not say whether its MLP is "
        "part of the model. It is left out (cls), as after unsupervised training; after supervised "
        'training ask for it with pooling="cls_mlp" (--pooling cls_mlp).',
        TertiumWarning,
        stacklevel=2,
    )
    return Pooling.CLS
