"""Models in use: loading by name or path, nothing that needs gradients."""

from tertium.inference.loading import NAMES, load, resolve

__all__ = ["NAMES", "load", "resolve"]
