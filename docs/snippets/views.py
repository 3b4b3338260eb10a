import torch

import tertium
from tertium.training.vocabulary import read_vocabulary
from tertium.types import Tokens
from tertium.views import VIEWS

model = tertium.load()
vocabulary = read_vocabulary(model.tokenizer, model.backbone)
features = model.features(["A brown bear is eating a small fish."])
tokens = Tokens(features["input_ids"], features["attention_mask"])

for kind in VIEWS:
    view = VIEWS[kind](vocabulary)
    generator = torch.Generator().manual_seed(1)
    changed = view(tokens, attend=model.attention, generator=generator)
    print(f"{kind:<10}", model.tokenizer.decode(changed.ids[0][changed.mask[0] == 1]))
