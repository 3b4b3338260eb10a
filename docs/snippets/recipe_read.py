from tertium.recipes import read_recipe

recipe, _ = read_recipe("sts-regression-bert-stage2", overrides=["stages.sts.train.epochs=2"])
for stage in recipe.stages:
    labels = stage.data.labels.build()
    print(stage.name, stage.objectives[0].kind, labels.low, labels.high, stage.train.epochs)
