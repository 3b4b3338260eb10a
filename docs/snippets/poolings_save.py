from sentence_transformers import SentenceTransformer

import tertium

model = tertium.load("default", pooling="mean_first_last")
model.save("my-model")

again = tertium.load("./my-model")
print(again.pooling)

stock = SentenceTransformer("./my-model", device="cpu")
same = abs(stock.encode(["A cat sleeps."]) - again.encode(["A cat sleeps."])).max() < 1e-5
print(same)
