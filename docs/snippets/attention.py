import torch

import tertium

model = tertium.load()
features = model.features(["A cat sleeps.", "A kitten is napping on the sofa."])
with torch.inference_mode():
    encoded = model.forward(features, attention_layers=[0, -1])

print(encoded.layers)
print(tuple(encoded.attention.shape))  # layers, texts, heads, tokens, tokens
first = encoded.attention[-1, 0].mean(dim=0)  # last layer, first text, mean over heads
tokens = model.tokenizer.convert_ids_to_tokens(features["input_ids"][0])
for token, weight in zip(tokens, first[0], strict=True):  # what the first token looks at
    print(f"{token:8} {weight:.2f}")
