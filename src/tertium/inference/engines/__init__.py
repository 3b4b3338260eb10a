"""What runs a model: torch, an exported graph, its int8 form, or a static copy."""

from collections.abc import Sequence
from dataclasses import dataclass

from tertium.errors import unknown_name
from tertium.types import EngineName

__all__ = ["ENGINES", "EngineKind", "engine_name"]


@dataclass(frozen=True)
class EngineKind:
    """What there is to know about an engine before it is used.

    Attributes:
        summary: what it is.
        packages: those of the extra ``fast`` that run it.
        exact: whether it gives torch's vectors but for rounding.
    """

    summary: str
    packages: Sequence[str] = ()
    exact: bool = True


# ``auto`` is not among them: it stands for one of these.
ENGINES: dict[EngineName, EngineKind] = {
    EngineName.TORCH: EngineKind("torch, as the model was trained"),
    EngineName.ONNX: EngineKind("its graph in ONNX Runtime", ("onnxruntime",)),
    EngineName.ONNX_INT8: EngineKind(
        "its graph in 8-bit integers in ONNX Runtime", ("onnxruntime",), exact=False
    ),
    EngineName.OPENVINO: EngineKind("its graph in OpenVINO", ("openvino",)),
    EngineName.OPENVINO_INT8: EngineKind(
        "its graph in 8-bit integers in OpenVINO", ("openvino",), exact=False
    ),
    EngineName.STATIC: EngineKind("vectors of single tokens, averaged", exact=False),
}


def engine_name(name: EngineName | str) -> EngineName:
    """The engine of this name.

    >>> engine_name("onnx")
    <EngineName.ONNX: 'onnx'>
    """
    try:
        return EngineName(name)
    except ValueError:
        raise unknown_name("engine", str(name), [str(e) for e in EngineName]) from None
