import tertium
from tertium.data.samples import sample_pairs
from tertium.evaluation import pearson, spearman

model = tertium.load()
pairs = sample_pairs()
gold = [pair.score for pair in pairs]
cosines = model.score((pair.sentence1, pair.sentence2) for pair in pairs)
print(f"{len(pairs)} pairs, Spearman {100 * spearman(gold, cosines):.1f}")
print(f"Pearson {100 * pearson(gold, cosines):.1f}")
