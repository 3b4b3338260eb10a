from tertium.data import recognise
from tertium.data.samples import PAIRS
from tertium.recipes.choose import choose

found = recognise(PAIRS)
print(found.shape, found.rows)
choice = choose(found)
print(choice.recipe)  # tertium.train(choice.recipe, "my-model", settings=choice.settings)
