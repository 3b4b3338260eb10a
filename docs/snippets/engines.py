import tertium

exact = tertium.load()
fast = tertium.load(engine="onnx")
pairs = [("A cat sleeps.", "A kitten is napping."), ("A cat sleeps.", "Stocks fell.")]
print(exact.score(pairs).round(3))
print(fast.score(pairs).round(3))
