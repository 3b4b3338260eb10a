"""What one library makes of texts: sentences a second, one sentence at a time, memory.

PYTHON benchmarks/contender.py < request.json      where PYTHON has the library

``measure.py`` runs it, in an environment of its own where a library needs other
versions than tertium. The request names the runner, a folder or model, and texts by kind; the
answer is JSON by label. Nothing but the library itself is imported.
"""

import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

SINGLES = 200
Encode = Callable[[list[str]], object]


def sentence_transformers(request: dict) -> dict[str, Encode]:
    """Its default batch size, and others for the best of them."""
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(request["model"], device="cpu")
    sizes = {"default": 32, **{f"batch {size}": size for size in (16, 64, 128)}}
    return {
        f"sentence-transformers, {label}": lambda texts, size=size: model.encode(
            texts, batch_size=size
        )
        for label, size in sizes.items()
    }


def fastembed(request: dict) -> dict[str, Encode]:
    """The ONNX file that tertium exported, by its default batch size of 256 and a smaller one."""
    from fastembed import TextEmbedding
    from fastembed.common.model_description import ModelSource, PoolingType

    TextEmbedding.add_custom_model(
        model="exported",
        pooling=PoolingType.DISABLED,
        normalization=False,
        sources=ModelSource(url="https://localhost/none"),
        dim=384,
        model_file="model.onnx",
    )
    model = TextEmbedding("exported", specific_model_path=request["model"])
    return {
        f"fastembed, {label}": lambda texts, size=size: list(model.embed(texts, batch_size=size))
        for label, size in {"default": 256, "batch 16": 16, "batch 32": 32}.items()
    }


def model2vec(request: dict) -> dict[str, Encode]:
    """Its static copy of the encoder in ``model``, distilled into ``copy`` if it is not there."""
    from model2vec import StaticModel

    if not Path(request["copy"]).exists():
        from model2vec.distill import distill

        distill(model_name=request["model"]).save_pretrained(request["copy"])
    model = StaticModel.from_pretrained(request["copy"])
    return {"model2vec": model.encode}


def tertium(request: dict) -> dict[str, Encode]:
    """One engine of ours."""
    import tertium

    model = tertium.load(request["model"], engine=request["engine"])
    return {request["label"]: lambda texts: model.encode(texts, progress=False)}


RUNNERS = {
    "sentence-transformers": sentence_transformers,
    "fastembed": fastembed,
    "model2vec": model2vec,
    "tertium": tertium,
}


def main() -> None:
    """Answer the request on standard input."""
    request = json.load(sys.stdin)
    begin = time.perf_counter()
    encoders = RUNNERS[request["runner"]](request)
    loaded = time.perf_counter() - begin
    found = {label: figures(encode, request["texts"]) for label, encode in encoders.items()}
    first = next(iter(encoders.values()))
    for label in found:
        found[label] |= {"loading": loaded, "memory": peak_memory()}
    vectors = [[float(x) for x in row] for row in first(request.get("wanted", []) or ["a"])]
    print(json.dumps({"figures": found, "vectors": vectors}))


def figures(encode: Encode, workloads: dict[str, list[str]]) -> dict[str, float]:
    """Sentences a second by kind of text, and milliseconds of one sentence."""
    found: dict[str, float] = {}
    for name, texts in workloads.items():
        encode(texts[:100])
        begin = time.perf_counter()
        encode(texts)
        found[name] = len(texts) / (time.perf_counter() - begin)
    spent = []
    for text in next(iter(workloads.values()), [])[:SINGLES]:
        begin = time.perf_counter()
        encode([text])
        spent.append(1000 * (time.perf_counter() - begin))
    if len(spent) > 1:
        found |= {"p50": statistics.median(spent), "p99": statistics.quantiles(spent, n=100)[-1]}
    return found


def peak_memory() -> float:
    """Largest resident size of this process in MB."""
    status = Path("/proc/self/status")
    if not status.exists():
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    line = next(x for x in status.read_text().splitlines() if x.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


if __name__ == "__main__":
    main()
