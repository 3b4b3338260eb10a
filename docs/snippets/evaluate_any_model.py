from collections.abc import Sequence

import numpy as np

import tertium


class Letters(tertium.Embedder):
    """Counts of the letters a to z: a floor that any real model should clear."""

    name = "letters"
    dimension = 26

    def encode(self, texts: Sequence[str], **options: object) -> np.ndarray:
        rows = [[text.lower().count(chr(97 + at)) for at in range(26)] for text in texts]
        return np.array(rows, dtype=np.float32).reshape(len(texts), 26)


print(Letters().score([("the same letters", "letters the same")]))
