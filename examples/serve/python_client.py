"""Ask a running server with tertium's own client, which needs neither torch nor a model.

tertium serve &
python examples/serve/python_client.py http://127.0.0.1:8080
"""

import sys

from tertium.client import Client

url = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8080"
with Client(url) as client:
    scores = client.similarity(
        [("A cat sleeps.", "A kitten is napping."), ("A cat sleeps.", "Stocks fell sharply.")]
    )
    print(scores.values.round(2), "on", scores.scale)
    print(client.embed(["A cat sleeps.", "A dog barks."]).shape)
