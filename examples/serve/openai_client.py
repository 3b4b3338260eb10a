"""Ask a running server with the official ``openai`` client (pip install openai).

tertium serve &
python examples/serve/openai_client.py http://127.0.0.1:8080
"""

import os
import sys

from openai import OpenAI

url = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8080"
client = OpenAI(base_url=f"{url}/v1", api_key=os.environ.get("TERTIUM_KEY", "none needed"))
model = client.models.list().data[0].id
found = client.embeddings.create(model=model, input=["A cat sleeps.", "A kitten is napping."])
first, second = (each.embedding for each in found.data)
print(model, len(first), "dimensions,", found.usage.total_tokens, "tokens")
print("cosine", round(sum(x * y for x, y in zip(first, second, strict=True)), 2))
