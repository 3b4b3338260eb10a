import warnings

import tertium

model = tertium.load()
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    model.encode(["short", "word " * 5000])
print(model.max_length)
print(caught[0].message)
