from tertium.evaluation import condition_sensitivity, condition_type

print([condition_type(text) for text in ("The color of the dog.", "The kind of dog.", "The mood.")])

labels = [5, 1, 4, 2]  # two pairs of sentences, each under two conditions
pair = ["first", "first", "second", "second"]
for name, scores in {
    "heeds": [0.9, 0.2, 0.6, 0.5],
    "blind": [0.7, 0.7, 0.4, 0.4],
    "wrong": [0.2, 0.9, 0.5, 0.6],
}.items():
    found = condition_sensitivity(labels, scores, pair)
    print(f"{name}: movement {found.movement:.2f}, direction {found.direction:.2f}")
