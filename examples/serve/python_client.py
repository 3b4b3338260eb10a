"""Ask a running server with tertium's own client, which needs neither torch nor a model.

tertium serve &
python examples/serve/python_client.py http://127.0.0.1:8080

A server that was started with --keys wants one of them: TERTIUM_KEY=... python ...
"""

import os
import sys

from tertium.client import Client
from tertium.errors import TertiumError

url = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8080"
try:
    with Client(url, key=os.environ.get("TERTIUM_KEY")) as client:
        scores = client.similarity(
            [("A cat sleeps.", "A kitten is napping."), ("A cat sleeps.", "Stocks fell sharply.")]
        )
        vectors = client.embed(["A cat sleeps.", "A dog barks."])
except TertiumError as error:
    sys.exit(f"error: {error}")
print(scores.values.round(2), "on", scores.scale)
print(vectors.shape)
