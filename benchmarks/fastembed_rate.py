"""Sentences a second of fastembed, fed an ONNX file that tertium exported.

PYTHON benchmarks/fastembed_rate.py FOLDER < texts.json      where PYTHON has fastembed

``benchmarks/pareto.py --fastembed PYTHON`` runs it: fastembed needs other versions of what tertium
needs, and so an environment of its own. Prints the rate and the first vector.
"""

import json
import sys
import time

import numpy as np
from fastembed import TextEmbedding
from fastembed.common.model_description import ModelSource, PoolingType

BATCHES = (16, 32, 64, 128, 256)


def main() -> None:
    """The best of fastembed's batch sizes, and its own default, 256."""
    texts = json.load(sys.stdin)
    TextEmbedding.add_custom_model(
        model="exported",
        pooling=PoolingType.DISABLED,
        normalization=False,
        sources=ModelSource(url="https://localhost/none"),
        dim=384,
        model_file="model.onnx",
    )
    model = TextEmbedding("exported", specific_model_path=sys.argv[1])
    first = np.array(list(model.embed(texts[:64])))[0]
    rates = {}
    for size in BATCHES:
        begin = time.perf_counter()
        list(model.embed(texts, batch_size=size))
        rates[size] = len(texts) / (time.perf_counter() - begin)
    found = {"default": rates[256], "best": max(rates.values()), "first": first.tolist()}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
