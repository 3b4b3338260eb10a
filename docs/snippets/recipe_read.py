from tertium.recipes import read_recipe

recipe = read_recipe("sts-regression-bert-stage2", settings={"stages.sts.train.epochs": 2})
for stage in recipe.stages:
    labels = stage.data.labels.build()
    print(stage.name, stage.objectives[0].kind, labels.low, labels.high, stage.train.epochs)
