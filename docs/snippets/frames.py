import pandas as pd

import tertium

frame = pd.DataFrame(
    {
        "id": [17, 18],
        "a": ["The invoice is wrong.", "The invoice is wrong."],
        "b": ["My bill has a mistake.", "Where is my parcel?"],
    }
)
model = tertium.load("sts")
frame["score"] = model.score(frame[["a", "b"]].itertuples(index=False)).round(1)
print(frame[["id", "score"]].to_string(index=False))
