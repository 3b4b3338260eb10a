"""Graphs in ONNX Runtime and OpenVINO, with bounded memory and no spinning idle threads.

ONNX Runtime runs several batches at once, each on one core, because threads that share a batch
wait for each other after every node.

A graph's first run on a machine is in a process of its own, started by this file's path:
``runtimes.py RUNTIME GRAPH FOLDER``. A crash there is harmless. Neither tertium nor torch is
imported here, so that it takes only a second.
"""

import json
import os
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["GRAPH", "RUNTIMES", "SINGLE_FILE", "OnnxEngine", "OpenVinoEngine", "session"]

GRAPH = "model.onnx"
SINGLE_FILE = 1_900_000_000  # bytes; one protobuf holds at most 2 GB

# On a CPU these fused nodes (add and normalise, add and GELU) are several times slower.
_SLOW_FUSIONS = ["SkipLayerNormFusion", "BiasGeluFusion"]


class OnnxEngine:
    """A graph in ONNX Runtime, opened when it is first run; several threads may call it.

    Attributes:
        workers: how many batches to run at once.
    """

    def __init__(self, name: str, path: Path, *, threads: int) -> None:
        self.name = name
        self.workers = threads
        self._path = path
        self._turn = threading.Lock()
        self._session: Any = None

    @property
    def shows(self) -> Sequence[str]:
        """Outputs beside the first."""
        return [output.name for output in self._opened().get_outputs()[1:]]

    def _opened(self) -> Any:
        with self._turn:
            if self._session is None:
                self._session = session(self._path, threads=1)
            return self._session

    def run(self, inputs: Mapping[str, np.ndarray]) -> NDArray[np.float32]:
        """The graph's first output for one batch."""
        running = self._opened()
        return np.asarray(running.run([running.get_outputs()[0].name], dict(inputs))[0])

    def look(self, inputs: Mapping[str, np.ndarray], names: Sequence[str]) -> list[np.ndarray]:
        """Other outputs for one batch."""
        return list(self._opened().run(list(names), dict(inputs)))


class OpenVinoEngine:
    """A graph in OpenVINO; calls from several threads are serialised."""

    def __init__(self, name: str, path: Path, *, threads: int) -> None:
        import openvino

        self.name = name
        self.shows: Sequence[str] = ()
        core = openvino.Core()
        options = {
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_NUM_THREADS": threads,
            "INFERENCE_PRECISION_HINT": "f32",  # otherwise bfloat16 if the processor has it
        }
        self._request = core.compile_model(str(path), "CPU", options).create_infer_request()
        self._turn = threading.Lock()

    def run(self, inputs: Mapping[str, np.ndarray]) -> NDArray[np.float32]:
        """The graph's output for one batch."""
        with self._turn:
            return np.array(self._request.infer(dict(inputs))[0])

    def look(self, inputs: Mapping[str, np.ndarray], names: Sequence[str]) -> list[np.ndarray]:
        """Not supported."""
        raise NotImplementedError


# By package.
RUNTIMES: dict[str, type[OnnxEngine] | type[OpenVinoEngine]] = {
    "onnxruntime": OnnxEngine,
    "openvino": OpenVinoEngine,
}


def session(path: Path | bytes, *, threads: int, profile: str | None = None) -> Any:
    """An ONNX Runtime session with bounded memory that lets idle threads sleep.

    Args:
        path: the graph, or its bytes.
        threads: threads per call.
        profile: prefix of a file to which the time of every node is written.
    """
    # Before the import: otherwise it stores a machine id in the user's cache, and may send data.
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    import onnxruntime

    onnxruntime.disable_telemetry_events()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    # An arena grows to the largest batch, which is bounded. Without one, memory is returned to the
    # system after every node and paged in again, which takes a tenth to a third of the time.
    options.enable_cpu_mem_arena = True
    options.enable_mem_pattern = False  # batches have many shapes
    options.log_severity_level = 3
    if profile is not None:
        options.enable_profiling = True
        options.profile_file_prefix = profile
    # Threads spin within a call, which is faster than waking them, and sleep after it.
    options.add_session_config_entry("session.force_spinning_stop", "1")
    return onnxruntime.InferenceSession(
        path if isinstance(path, bytes) else str(path),
        options,
        providers=["CPUExecutionProvider"],
        disabled_optimizers=_SLOW_FUSIONS,
    )


def first_run(runtime: str, graph: Path, folder: Path) -> None:
    """Run every batch in ``folder``, and write the outcome there."""
    try:
        engine = RUNTIMES[runtime](runtime, graph, threads=1)
        for path in sorted(folder.glob("*.npz")):
            with np.load(path) as batch:
                engine.run(dict(batch))
        reply: dict[str, object] = {"runs": True}
    except Exception as error:  # ONNX Runtime and OpenVINO raise errors of their own
        lines = str(error).strip().splitlines()
        reply = {"error": lines[0][:200] if lines else type(error).__name__}
    (folder / "reply.json").write_text(json.dumps(reply), encoding="utf-8")


if __name__ == "__main__":
    first_run(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
