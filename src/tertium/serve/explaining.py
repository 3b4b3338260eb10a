"""Explanations of the library, as the server gives them."""

from typing import Any

from tertium.serve.lanes import Refusal

__all__ = ["explain", "explains"]


def explains(model: Any) -> bool:
    """Whether the model can say which words made a score."""
    return callable(getattr(model, "explain", None))


def explain(model: Any, a: str, b: str, on: str | None) -> dict[str, Any]:
    """Which words made the score of two texts, perhaps under a condition."""
    if model is None or not explains(model):
        raise Refusal(501, "no_explanation", "The model does not explain its scores.")
    found: dict[str, Any] = model.explain(a, b, condition=on).to_json()
    return found
