"""The hash of all that an exported graph depends on."""

import hashlib
import json
from typing import Any

from torch import nn

from tertium.models import Encoder
from tertium.models.conditional import ConditionalScorer
from tertium.models.hashing import hash_weights

__all__ = ["encoder_fingerprint", "scorer_fingerprint"]

# Entries of a configuration that say where a model comes from, and not what it computes.
_ORIGIN = {"_name_or_path", "transformers_version", "architectures", "dtype", "torch_dtype"}


def encoder_fingerprint(encoder: Encoder, **more: Any) -> str:
    """Hash of an encoder's weights, configuration and pooling, and of what else matters."""
    config = encoder.backbone.config.to_dict()
    description = {
        "backbone": {key: value for key, value in config.items() if key not in _ORIGIN},
        "pooling": encoder.pooling,
        "modules": [_module(module) for module in list(encoder.model)[1:]],
        **more,
    }
    description["backbone"].pop("output_hidden_states", None)  # follows from the pooling
    return _digest(encoder.model, description)


def scorer_fingerprint(scorer: ConditionalScorer) -> str:
    """The same of a conditional scorer: encoder and head."""
    encoder = encoder_fingerprint(scorer.encoder)
    return _digest(scorer.head, {"encoder": encoder, "head": scorer.head.config()})


def _module(module: nn.Module) -> list[Any]:
    config: dict[str, Any] = getattr(module, "get_config_dict", dict)()
    return [type(module).__name__, config]


def _digest(model: nn.Module, description: dict[str, Any]) -> str:
    digest = hashlib.sha256(json.dumps(description, sort_keys=True, default=str).encode())
    hash_weights(model, digest)
    return digest.hexdigest()
