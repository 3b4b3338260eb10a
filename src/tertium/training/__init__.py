"""Training: one adapter around the Hugging Face Trainer for all methods."""

from tertium.training.examples import Examples
from tertium.training.module import TrainingModule
from tertium.training.stage import Schedule, train_stage

__all__ = ["Examples", "Schedule", "TrainingModule", "train_stage"]
