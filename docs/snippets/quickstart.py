import tertium

model = tertium.load()
pairs = [("A cat sleeps.", "A kitten is napping."), ("A cat sleeps.", "Stocks fell sharply.")]
print(model.score(pairs).round(2))

vectors = model.encode(["A cat sleeps.", "A dog barks."], normalize=True)
print(vectors.shape)
