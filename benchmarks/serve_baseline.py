"""The obvious server: FastAPI, and ``SentenceTransformer.encode`` in every request.

python benchmarks/serve_baseline.py MODEL_FOLDER PORT
"""

import sys

import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel
from sentence_transformers import SentenceTransformer

folder, port = sys.argv[1], int(sys.argv[2])
model = SentenceTransformer(folder, device="cpu")
model.encode(["A cat sleeps."])
app = FastAPI()


class Texts(BaseModel):
    """What a request holds."""

    input: str | list[str]


@app.post("/v1/embeddings")
def embeddings(texts: Texts) -> dict[str, object]:
    """Vectors in the shape that OpenAI gives them."""
    asked = [texts.input] if isinstance(texts.input, str) else texts.input
    rows = model.encode(asked, normalize_embeddings=True)
    data = [
        {"object": "embedding", "index": at, "embedding": row.tolist()}
        for at, row in enumerate(rows)
    ]
    return {"object": "list", "data": data, "model": "baseline"}


uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning", access_log=False)
