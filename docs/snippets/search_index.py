import tertium
from tertium.corpus import Index
from tertium.data.samples import sample_sentences

model = tertium.load()
index = Index.build("my-index", sample_sentences(), model)
index.add(["The ship stayed in port."], ids=["ship"])

for hit in index.search("The boat did not sail because of the storm.", top_k=3):
    print(f"{hit.score:.2f}  {hit.id}  {hit.text}")
print(len(Index.open("my-index")))
