import tertium
from tertium.data.samples import sample_sentences
from tertium.recipes.selection import recognition

for pooling in ("cls", "mean"):
    model = tertium.load(pooling=pooling)
    print(pooling, round(recognition(model, sample_sentences()), 2))
