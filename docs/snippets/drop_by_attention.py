import tertium
from tertium.analysis import drop_by_attention
from tertium.training.vocabulary import read_vocabulary
from tertium.views import AttentionDropout

model = tertium.load()
for aggregation in ("naive", "rollout"):
    view = AttentionDropout(read_vocabulary(model.tokenizer), aggregation=aggregation, k=4)
    found = drop_by_attention(model, view, "A brown bear is eating a small fish.")
    print(f"{aggregation:<8}", [step.token for step in found.steps], "->", found.steps[-1].text)
