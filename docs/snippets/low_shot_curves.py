from tertium.analysis import low_shot_curves

paper = {  # miCSE, Table 2: STS averages of BERT-base, here without their deviations
    "SimCSE": {1_000: [67.94], 10_000: [74.96], 100_000: [75.76], 1_000_000: [76.15]},
    "miCSE": {1_000: [73.68], 10_000: [76.40], 100_000: [76.38], 1_000_000: [78.13]},
}
low_shot_curves(paper).savefig("paper.png")
for size, (simcse,) in paper["SimCSE"].items():
    print(f"{size:>9,} sentences: miCSE {paper['miCSE'][size][0] - simcse:+.2f}")
