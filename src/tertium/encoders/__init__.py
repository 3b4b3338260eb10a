"""Text to vectors: the one place where a backbone is loaded."""

from tertium.encoders.encoder import Encoder
from tertium.encoders.static import StaticEncoder
from tertium.types import Kind

__all__ = ["ENCODERS", "Encoder", "StaticEncoder"]

# Encoder classes by the kind that ``tertium.json`` names.
ENCODERS: dict[str, type[Encoder]] = {
    Kind.ENCODER: Encoder,
    Kind.TWIN: Encoder,
    Kind.STATIC: StaticEncoder,
}
