from pathlib import Path

import tertium
from tertium.data.samples import sample_pairs
from tertium.heads import CosineHead
from tertium.objectives import SmoothK2
from tertium.training import Examples, Schedule, TrainingModule, train_stage
from tertium.training.module import WeightedObjective

pairs = sample_pairs()
examples = Examples([(p.sentence1, p.sentence2) for p in pairs], [p.score for p in pairs])
head = CosineHead(low=0.0, high=5.0)
objectives = {"smooth_k2": WeightedObjective(SmoothK2(head=head, low=0.0, high=5.0))}
module = TrainingModule(tertium.load(), objectives, sides=2)

log = train_stage(module, examples, Schedule(max_steps=2, bucket=True), Path("stage"))
print(log[-1]["step"], "steps")
