"""Explanations of the library, as what JSON holds."""

import dataclasses
from typing import Any

from tertium.serve.lanes import Refusal

__all__ = ["explain"]


def explain(model: Any, a: str, b: str, on: str | None) -> dict[str, Any]:
    """Which words made the score of two texts, perhaps under a condition."""
    if model is None:
        raise Refusal(503, "no_conditional_model", "No model that takes conditions is served.")
    if not hasattr(model, "explain"):
        raise Refusal(501, "no_explanation", f"{model.name} does not explain its scores.")
    found = model.explain(a, b) if on is None else model.explain(a, b, on=on)
    plain = _plain(found)
    assert isinstance(plain, dict)
    return plain


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = dataclasses.fields(value)
        return {field.name: _plain(getattr(value, field.name)) for field in fields}
    if isinstance(value, dict):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return value.tolist() if hasattr(value, "tolist") else value
