import tertium
from tertium.data.samples import sample_pairs
from tertium.training.examples import EpochBatches, Examples, token_lengths

pairs = sample_pairs()
examples = Examples([(p.sentence1, p.sentence2) for p in pairs])
lengths = token_lengths(examples, tertium.load().tokenizer, max_length=128)
for name, given in (("shuffled", None), ("bucketed", lengths)):
    batches = list(EpochBatches(len(examples), 8, seed=0, lengths=given))
    computed = sum(len(batch) * max(lengths[batch]) for batch in batches)
    print(f"{name}: {computed} positions a side for {sum(lengths)} tokens")
