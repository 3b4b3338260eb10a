from tertium.recipes.sweep import read_sweep

sweep = read_sweep("sts-regression-minilm-losses")
for variant in sweep.variants():
    print(variant.name, "seeds", *sweep.seeds)
