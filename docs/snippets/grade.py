import tertium
from tertium.data.labels import OrderedLabels
from tertium.heads import CosineHead
from tertium.inference import PairScorer

# An untrained scorer, 5 times the cosine: enough to show what a trained one is asked.
PairScorer(tertium.load(), CosineHead(low=0.0, high=5.0), OrderedLabels(0.0, 5.0)).save("grader")

model = tertium.load("./grader")
pairs = [("A cat sleeps.", "A kitten is napping."), ("A cat sleeps.", "Stocks fell sharply.")]
print(model.scale)
print(model.score(pairs).round(2))
print(model.classify(pairs))
print(model.cosine(pairs).round(2))
print(model.encode(["A cat sleeps."]).shape)
