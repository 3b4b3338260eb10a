import tertium

model = tertium.load("conditional")
one, two = "Two dogs run on a sunny beach.", "Two cats sleep on a beach at night."
for condition in ("the number of animals", "the action of the animals"):
    (score,) = model.score([(one, two, condition)])
    print(f"{score:.1f} of {model.scale[1]:.0f} with respect to {condition}")
