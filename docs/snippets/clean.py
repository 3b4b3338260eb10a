import tertium
from tertium.corpus import cluster, dedupe, mine

model = tertium.load()
texts = [
    "The parcel arrived two days late.",
    "The parcel came two days late.",
    "The parcel arrived  two days late.",
    "My parcel was delivered two days too late.",
    "The colour is nicer than in the picture.",
    "The colour looks nicer than on the photo.",
    "I would buy it again.",
]
vectors = model.encode(texts)  # made once, used three times

for pair in mine(texts, vectors, threshold=0.9):
    print(f"{pair.score:.2f}", pair.first, pair.second)

clean = dedupe(texts, vectors, threshold=0.9)
print(clean.kept)
for gone in clean.dropped:
    print(f"{gone.row} is {gone.reason} {gone.kept}, {gone.score:.2f}")

found = cluster(texts, vectors, threshold=0.7, min_size=2)
print([group.rows for group in found.clusters], found.alone)
