import tertium

model = tertium.load("sts")
pairs = [
    ("A man is playing a guitar.", "A man plays the guitar."),
    ("A man is playing a guitar.", "Someone plays an instrument."),
    ("A man is playing a guitar.", "The bus was late."),
]
print(model.scale)
print(model.score(pairs).round(1))
print(model.classify(pairs))
print(model.cosine(pairs).round(1))
print(model.encode(["A man is playing a guitar."]).shape)
