import tertium

model = tertium.load("default")
vectors = model.encode(["A cat sleeps.", "A dog barks."], normalize_embeddings=True)
print(model.similarity(vectors, vectors).shape)

for hit in model.rank("A cat sleeps.", ["Stocks fell.", "A kitten is napping."], top_k=1):
    print(hit.text, round(hit.score, 2))
