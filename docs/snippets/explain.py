import tertium

model = tertium.load("sts")
found = model.explain("A man is playing a guitar.", "Someone plays an instrument.")
print(f"{found.score:.1f}")
for text in (0, 1):
    pairs = zip(found.words[text], found.occlusion[text], strict=True)
    print(*(f"{word.text} {value:+.1f}" for word, value in pairs if abs(value) > 0.2))
print([found.word(place) for place in found.smallest.removed], f"{found.smallest.score:.1f}")
