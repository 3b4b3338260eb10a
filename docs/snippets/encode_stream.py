import tertium

model = tertium.load()
texts = (f"sentence number {number}" for number in range(1000))
total = 0
for _vector in model.encode_stream(texts, window=256):
    total += 1
print(total)
