"""What a training recipe may say; everything is checked before anything runs."""

import inspect
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from tertium.data.benchmarks import DATASETS
from tertium.data.labels import OrderedLabels
from tertium.errors import TertiumError, unknown_name
from tertium.heads import HEADS, SiameseHead
from tertium.objectives import OBJECTIVES
from tertium.types import Pooling

__all__ = [
    "DataSpec",
    "EncoderSpec",
    "LabelSpec",
    "ObjectiveSpec",
    "Recipe",
    "SelectSpec",
    "SourceSpec",
    "StageSpec",
    "TrainSpec",
]


def _number(value: Any) -> Any:
    """YAML reads ``1e-5`` as text; take it as the number that was meant."""
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return value
    return value


Number = Annotated[float, BeforeValidator(_number)]
Scheduler = Literal[
    "linear", "cosine", "constant", "constant_with_warmup", "polynomial", "inverse_sqrt"
]
Tracker = Literal["tensorboard", "wandb", "mlflow", "trackio"]


def _settings(kind: str) -> dict[str, Any]:
    """What an objective can be told, with the defaults."""
    parameters = inspect.signature(OBJECTIVES[kind]).parameters
    return {name: parameter.default for name, parameter in parameters.items()}


# Objectives that compare a head's score with graded labels.
_GRADED = frozenset(kind for kind in OBJECTIVES if "head" in _settings(kind))


class _Spec(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class EncoderSpec(_Spec):
    """The model to start from."""

    model: str = "default"
    pooling: Pooling = Pooling.MEAN
    normalize: bool = False
    max_length: int | None = Field(None, ge=2)
    freeze: Literal["nothing", "embeddings"] = "nothing"
    adapter_rank: int | None = Field(None, ge=1)

    @model_validator(mode="after")
    def _adapters_leave_embeddings(self) -> "EncoderSpec":
        if self.adapter_rank is not None and self.freeze != "embeddings":
            raise ValueError("adapter_rank needs freeze: embeddings")
        return self


class SourceSpec(_Spec):
    """One source of examples: a benchmark set by name, or the user's file."""

    name: str | None = None
    file: str | None = None
    split: str = "train"
    text: Literal["senteval", "raw"] = "raw"
    limit: int | None = Field(None, ge=1)

    @model_validator(mode="after")
    def _one_of_both(self) -> "SourceSpec":
        if (self.name is None) == (self.file is None):
            raise ValueError("give either name (a benchmark set) or file")
        if self.name is not None:
            if self.name not in DATASETS:
                raise ValueError(str(unknown_name("data set", self.name, DATASETS)))
            splits = DATASETS[self.name].rows
            if self.split not in splits:
                raise ValueError(str(unknown_name(f"split of {self.name}", self.split, splits)))
        return self


class LabelSpec(_Spec):
    """Ordered labels: names in ascending order, or a numeric range."""

    names: tuple[str, ...] | None = None
    low: Number = 0.0
    high: Number | None = None
    step: Number = 1.0
    round: bool = False

    def build(self) -> OrderedLabels:
        """The label map."""
        if self.names is not None:
            return OrderedLabels.named(self.names, low=self.low, step=self.step)
        if self.high is None:
            raise TertiumError("labels need names, or low and high.")
        return OrderedLabels(self.low, self.high, self.step)

    @model_validator(mode="after")
    def _builds(self) -> "LabelSpec":
        try:
            self.build()
        except TertiumError as error:
            raise ValueError(str(error)) from error
        return self


class DataSpec(_Spec):
    """Graded pairs to train on."""

    kind: Literal["graded"] = "graded"
    sources: tuple[SourceSpec, ...] = Field(min_length=1)
    labels: LabelSpec
    limit: int | None = Field(None, ge=2)


class ObjectiveSpec(BaseModel):
    """One objective, its weight, and its own settings."""

    model_config = ConfigDict(frozen=True, extra="allow")

    kind: str
    weight: Number = 1.0
    head: str = "siamese"
    features: tuple[str, ...] = ("u", "v", "|u-v|")
    threshold: Number | None = Field(None, ge=0)
    slope: Number | None = Field(None, gt=0)
    clip: Literal["both", "low", "none"] = "both"

    @model_validator(mode="after")
    def _known(self) -> "ObjectiveSpec":
        if self.kind not in OBJECTIVES:
            raise ValueError(str(unknown_name("objective", self.kind, OBJECTIVES)))
        if self.head not in HEADS:
            raise ValueError(str(unknown_name("head", self.head, HEADS)))
        if self.model_extra:
            raise ValueError(f"unknown setting: {', '.join(self.model_extra)}")
        if self.kind not in _GRADED:
            raise ValueError(f"{self.kind} does not learn from graded pairs")
        for name in ("slope", "threshold"):
            if getattr(self, name) is not None and name not in _settings(self.kind):
                raise ValueError(f"{self.kind} has no {name}")
        try:
            SiameseHead(dimension=1, features=self.features)
        except TertiumError as error:
            raise ValueError(str(error)) from error
        if self.kind == "cross_entropy" and self.head != "siamese":
            raise ValueError("cross_entropy classifies: it needs head: siamese")
        return self


class TrainSpec(_Spec):
    """How long and how fast; see :class:`tertium.training.Schedule`."""

    epochs: Number = Field(1.0, gt=0)
    max_steps: int = -1
    batch_size: int = Field(16, ge=1)
    accumulate: int = Field(1, ge=1)
    learning_rate: Number = Field(2e-5, gt=0)
    weight_decay: Number = Field(0.01, ge=0)
    layer_decay: Number = Field(1.0, gt=0, le=1)
    warmup: Number = Field(0.0, ge=0)
    scheduler: Scheduler = "linear"
    clip: Number | None = Field(1.0, gt=0)
    seed: int = 42
    bucket: bool = True
    checkpoint_every: int = Field(500, ge=1)
    precision: Literal["float32", "bf16", "fp16"] = "float32"
    report_to: tuple[Tracker, ...] = ()


class SelectSpec(_Spec):
    """Which figure chooses the checkpoint that is kept."""

    task: Literal["STS-B"] = "STS-B"
    split: Literal["dev"] = "dev"
    text: Literal["senteval", "raw"] = "raw"
    every: int = Field(250, ge=1)


class StageSpec(_Spec):
    """One stage: data, objectives, schedule, selection."""

    name: str = Field(pattern=r"^[a-z0-9-]+$")
    data: DataSpec
    objectives: tuple[ObjectiveSpec, ...] = Field(min_length=1)
    train: TrainSpec = TrainSpec()
    select: SelectSpec | None = None

    @model_validator(mode="after")
    def _dead_zones_fit(self) -> "StageSpec":
        kinds = [objective.kind for objective in self.objectives]
        if len(set(kinds)) != len(kinds):
            raise ValueError(f"two objectives are of the same kind: {', '.join(kinds)}")
        labels = self.data.labels.build()
        for objective in self.objectives:
            default = _settings(objective.kind).get("threshold")
            threshold = default if objective.threshold is None else objective.threshold
            if threshold is not None:
                try:
                    labels.check_threshold(threshold)
                except TertiumError as error:
                    raise ValueError(str(error)) from error
        return self


class Recipe(_Spec):
    """A list of stages, each on the result of the one before."""

    summary: str
    source: str = ""  # paper, section and figure that the recipe follows
    published: Number | None = None  # the paper's seven-task STS average, for the card
    extends: str | None = None
    encoder: EncoderSpec = EncoderSpec()
    stages: tuple[StageSpec, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _names_differ(self) -> "Recipe":
        names = [stage.name for stage in self.stages]
        if len(set(names)) != len(names):
            raise ValueError(f"two stages share a name: {', '.join(names)}")
        return self
