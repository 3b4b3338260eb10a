import tertium
from tertium.data.samples import sample_sentences

model = tertium.load()
sentences = sample_sentences()
vectors = model.encode(sentences, normalize=True)
query = model.encode("The boat did not sail because of the storm.", normalize=True)

cosines = vectors @ query
for at in cosines.argsort()[::-1][:3]:
    print(f"{cosines[at]:.2f}  {sentences[at]}")
