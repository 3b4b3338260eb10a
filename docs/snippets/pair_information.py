import tertium
from tertium.analysis import information_scatter, pair_information
from tertium.data.samples import sample_sentences

found = pair_information(tertium.load(), sample_sentences(), seed=0)
information_scatter(found).savefig("attention-information.png")
for name, cosines, information in (
    ("same text", found.positive_cosines, found.positive_information),
    ("two texts", found.negative_cosines, found.negative_information),
):
    print(f"{name}: cosine {cosines.mean():.2f}, information {information.mean():.2f}")
