"""How similar are two sentences, and in what way? Several conditions, and what decides one.

python examples/compare_under_a_condition.py
"""

import numpy as np

import tertium

REPORTS = (
    "The blue van of the bakery was parked in front of the school all night.",
    "All night, two red vans stood in front of the hospital.",
)
CONDITIONS = (
    "the number of vehicles",
    "the color of the vehicle",
    "the type of vehicle",
    "the time",
)


def main() -> None:
    """Print two sentences, and how similar they are under each condition."""
    model = tertium.load("conditional")
    scores = model.score([(*REPORTS, condition) for condition in CONDITIONS])
    print(*REPORTS, sep="\n")
    for at in np.argsort(-scores):
        print(f"  {scores[at]:.1f} of 5  {CONDITIONS[at]}")
    found = model.explain(*REPORTS, condition=CONDITIONS[1])
    words = [word.text for text in found.words for word in text]
    apart = np.argsort(np.concatenate(found.occlusion))[:3]
    deciding = ", ".join(words[at] for at in apart)
    print(f"With respect to {CONDITIONS[1]}, set apart most by: {deciding}")


if __name__ == "__main__":
    main()
