"""What a training recipe may say; everything is checked before anything runs."""

import inspect
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

import torch
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    create_model,
    model_validator,
)
from torch import nn

from tertium.data.benchmarks import DATASETS
from tertium.data.labels import OrderedLabels
from tertium.errors import TertiumError, unknown_name
from tertium.heads import CONDITIONAL_HEADS, HEADS, ModelShape
from tertium.objectives import OBJECTIVES
from tertium.objectives.base import TripleObjective
from tertium.types import Pooling
from tertium.views import VIEWS, Vocabulary

__all__ = [
    "DataSpec",
    "EncoderSpec",
    "FoldSpec",
    "HeadSpec",
    "LabelSpec",
    "MomentumSpec",
    "ObjectiveSpec",
    "Recipe",
    "SelectSpec",
    "SourceSpec",
    "StageSpec",
    "TeacherSpec",
    "TrainSpec",
    "ViewSpec",
    "head_parameters",
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
_GRADED = frozenset(kind for kind in OBJECTIVES if "low" in _settings(kind))
# A vocabulary to try a view's settings with, before there is a model.
_VOCABULARY = {
    "vocabulary": Vocabulary(
        size=1, padding=0, mask=0, boundaries=(), characters=torch.ones(1, dtype=torch.long)
    )
}


# What the model, the labels and the stage give a head that takes it; all else are its own settings.
_FROM_STAGE = {"dimension": 1, "low": 0.0, "high": 1.0, "outputs": 1, "seed": 0}
# What a model will tell a conditional head, to try its settings with.
_SHAPE = {"shape": ModelShape(dimension=1, embedding=1, heads=1, depth=1), "seed": 0}


class _Spec(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class EncoderSpec(_Spec):
    """The model to start from."""

    model: str = "default"
    pooling: Pooling | None = Pooling.MEAN  # None: the model's own
    normalize: bool = False
    max_length: int | None = Field(None, ge=2)
    layers: int | tuple[int, ...] | None = None  # kept: so many, or these, counted from 1
    towers: Literal[1, 2] = 1
    second: str | None = None  # the model of tower II (default: that of tower I)
    freeze: Literal["nothing", "embeddings"] = "nothing"
    adapter_rank: int | None = Field(None, ge=1)

    @model_validator(mode="after")
    def _adapters_leave_embeddings(self) -> "EncoderSpec":
        if self.adapter_rank is not None and self.freeze != "embeddings":
            raise ValueError("adapter_rank needs freeze: embeddings")
        if self.adapter_rank is not None and self.layers is not None:
            raise ValueError("an adapter belongs to a model with all its layers: leave one out")
        if self.second is not None and self.towers == 1:
            raise ValueError("second names the model of tower II: say towers: 2")
        if self.towers == 2 and (self.adapter_rank is not None or self.normalize):
            raise ValueError("a twin has no adapter and is not normalized")
        return self


class SourceSpec(_Spec):
    """One source of examples: a benchmark set by name, or the user's file."""

    name: str | None = None
    file: str | None = None
    split: str = "train"
    text: Literal["senteval", "raw"] = "raw"
    limit: int | None = Field(None, ge=1)
    translation_of: str | None = None  # a file whose rows the rows of this one translate

    @model_validator(mode="after")
    def _one_of_both(self) -> "SourceSpec":
        if (self.name is None) == (self.file is None):
            raise ValueError("give either name (a benchmark set) or file")
        if self.translation_of is not None and self.file is None:
            raise ValueError("translation_of is for a file")
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


class FoldSpec(_Spec):
    """Cut the data by sentence pair, and keep one part to choose the checkpoint on."""

    count: int = Field(5, ge=2)
    held_out: int = Field(0, ge=0)

    @model_validator(mode="after")
    def _exists(self) -> "FoldSpec":
        if self.held_out >= self.count:
            raise ValueError(f"held_out counts from 0 to {self.count - 1}")
        return self


class DataSpec(_Spec):
    """What to train on: graded pairs, single texts, triplets, or pairs under a condition."""

    kind: Literal["graded", "texts", "triplets", "conditional"] = "graded"
    sources: tuple[SourceSpec, ...] = Field(min_length=1)
    labels: LabelSpec | None = None
    limit: int | None = Field(None, ge=2)
    published: int | None = Field(None, ge=1)  # how many examples the paper trained on
    subset: Literal["fixed", "by-seed"] = "fixed"  # which examples a limit keeps
    folds: FoldSpec | None = None

    @model_validator(mode="after")
    def _labels_where_graded(self) -> "DataSpec":
        labelled = self.kind in ("graded", "conditional")
        if (self.labels is not None) != labelled:
            raise ValueError(
                f"{self.kind} pairs need labels" if labelled else f"{self.kind} have no labels"
            )
        if labelled and self.subset == "by-seed":
            raise ValueError("subset: by-seed is for texts and triplets")
        if self.folds is not None and self.kind != "conditional":
            raise ValueError("folds are for conditional data")
        if self.kind == "conditional" and self.labels is not None and self.labels.names:
            raise ValueError("conditional data have grades: give labels low and high")
        return self


class ViewSpec(BaseModel):
    """One step from a sentence to its second view, with the view's own settings."""

    model_config = ConfigDict(frozen=True, extra="allow")

    kind: str
    scores_from: Literal["model", "frozen"] = "model"

    @model_validator(mode="after")
    def _known(self) -> "ViewSpec":
        if self.kind not in VIEWS:
            raise ValueError(str(unknown_name("view", self.kind, VIEWS)))
        if "scores_from" in self.model_fields_set and self.kind != "add":
            raise ValueError(f"{self.kind} scores nothing: scores_from belongs to add")
        self.settings()
        return self

    def settings(self) -> dict[str, Any]:
        """The view's arguments, checked."""
        return _checked_settings(VIEWS[self.kind], self.kind, self.model_extra or {}, _VOCABULARY)


class HeadSpec(BaseModel):
    """What compares two sentences under a condition, with its own settings."""

    model_config = ConfigDict(frozen=True, extra="allow")

    kind: str

    @model_validator(mode="after")
    def _known(self) -> "HeadSpec":
        if self.kind not in CONDITIONAL_HEADS:
            raise ValueError(str(unknown_name("conditional head", self.kind, CONDITIONAL_HEADS)))
        self.settings()
        return self

    def settings(self) -> dict[str, Any]:
        """The head's arguments, checked."""
        given = self.model_extra or {}
        return _checked_settings(CONDITIONAL_HEADS[self.kind], self.kind, given, _SHAPE)


class ObjectiveSpec(BaseModel):
    """One objective, its weight, and further settings: its own, or if it is graded its head's."""

    model_config = ConfigDict(frozen=True, extra="allow")

    kind: str
    weight: Number = 1.0
    head: str = "siamese"
    threshold: Number | None = Field(None, ge=0)
    slope: Number | None = Field(None, gt=0)
    clip: Literal["both", "low", "none"] = "both"

    @model_validator(mode="after")
    def _known(self) -> "ObjectiveSpec":
        if self.kind not in OBJECTIVES:
            raise ValueError(str(unknown_name("objective", self.kind, OBJECTIVES)))
        if self.kind not in _GRADED:
            self.settings()
            return self
        if self.head not in HEADS:
            raise ValueError(str(unknown_name("head", self.head, HEADS)))
        for name in ("slope", "threshold"):
            if getattr(self, name) is not None and name not in _settings(self.kind):
                raise ValueError(f"{self.kind} has no {name}")
        self.head_settings()
        if self.kind == "cross_entropy" and "outputs" not in head_parameters(self.head):
            raise ValueError(
                "cross_entropy classifies: it needs a head with several outputs, such as siamese"
            )
        return self

    @property
    def graded(self) -> bool:
        """Whether it compares a head's score with labels."""
        return self.kind in _GRADED

    def head_settings(self) -> dict[str, Any]:
        """The arguments of a graded objective's head that are its own, checked."""
        parameters, given = head_parameters(self.head), self.model_extra or {}
        own = parameters.keys() - _FROM_STAGE.keys()
        unknown = [name for name in given if name not in own]
        if unknown:
            raise ValueError(
                f"neither {self.kind} nor the head {self.head} has a setting {', '.join(unknown)}"
            )
        from_stage = {name: x for name, x in _FROM_STAGE.items() if name in parameters}
        return _checked_settings(HEADS[self.head], self.head, given, from_stage)

    def settings(self) -> dict[str, Any]:
        """The arguments of an objective that is not graded, checked."""
        declared = self.model_fields_set - {"kind", "weight"}
        given = {name: getattr(self, name) for name in declared}
        head = {"head": nn.Identity()} if "head" in _settings(self.kind) else {}
        return _checked_settings(OBJECTIVES[self.kind], self.kind, given, head)


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
    bucket: bool | None = None  # by default where a batch's examples do not meet each other
    checkpoint_every: int = Field(500, ge=1)
    precision: Literal["float32", "bf16", "fp16"] = "float32"
    report_to: tuple[Tracker, ...] = ()


class SelectSpec(_Spec):
    """Which figure chooses the checkpoint that is kept."""

    task: Literal["STS-B", "C-STS", "held-out"] = "STS-B"
    split: Literal["dev", "validation"] = "dev"
    text: Literal["senteval", "raw"] = "raw"
    every: int = Field(250, ge=1)

    @model_validator(mode="after")
    def _split_exists(self) -> "SelectSpec":
        if (self.task == "C-STS") != (self.split == "validation"):
            raise ValueError("C-STS has split: validation, the others split: dev")
        return self


class MomentumSpec(_Spec):
    """A slow copy of the encoder that fills a queue of negatives."""

    queue: int = Field(384, ge=1)
    decay: Number = Field(0.995, ge=0, le=1)
    dropout: Number = Field(0.3, ge=0, lt=1)


class TeacherSpec(_Spec):
    """Models whose embeddings a student learns: their sum, or JTCSE-UC's weighted one."""

    models: tuple[str, ...] = Field(min_length=1)
    weight: Number | None = Field(None, gt=0, lt=1)  # of the last model
    pooling: Pooling | None = None  # None: each model's own

    @model_validator(mode="after")
    def _weight_has_company(self) -> "TeacherSpec":
        if self.weight is not None and len(self.models) < 2:
            raise ValueError("weight is that of the last of several models")
        return self


class StageSpec(_Spec):
    """One stage: data, views, objectives, schedule, selection."""

    name: str = Field(pattern=r"^[a-z0-9-]+$")
    tower: Literal["first", "second"] | None = None  # train this tower of a twin alone
    data: DataSpec
    views: tuple[ViewSpec, ...] = ()
    teacher: TeacherSpec | None = None
    projection: Literal["none", "mlp", "linear", "dense"] = "none"
    momentum: MomentumSpec | None = None
    head: HeadSpec | None = None  # for conditional data
    objectives: tuple[ObjectiveSpec, ...] = Field(min_length=1)
    train: TrainSpec = TrainSpec()
    select: SelectSpec | None = None

    @model_validator(mode="after")
    def _parts_fit(self) -> "StageSpec":
        kinds = [objective.kind for objective in self.objectives]
        if len(set(kinds)) != len(kinds):
            raise ValueError(f"two objectives are of the same kind: {', '.join(kinds)}")
        if self.data.kind == "conditional":
            self._conditions_fit(kinds)
            self._dead_zones_fit()
            return self
        triples = [kind for kind in kinds if issubclass(OBJECTIVES[kind], TripleObjective)]
        if self.head is not None or triples:
            raise ValueError(f"{' and '.join([*triples, 'head'])} are for conditional data")
        if self.select is not None and self.select.task == "C-STS":
            raise ValueError("select C-STS is for conditional data")
        graded = self.data.kind == "graded"
        for objective in self.objectives:
            if graded and not objective.graded:
                raise ValueError(f"{objective.kind} does not learn from graded pairs")
            if objective.graded and not graded:
                raise ValueError(f"{objective.kind} learns from graded pairs, not {self.data.kind}")
        if self.views and self.data.kind != "texts":
            raise ValueError(f"views are made of single texts, and the data are {self.data.kind}")
        held_out = self.select is not None and self.select.task == "held-out"
        if held_out and self.data.kind == "triplets":
            raise ValueError("select held-out holds out texts or graded pairs, not triplets")
        if self.momentum is not None and not {"info_nce", "nt_xent"} & set(kinds):
            raise ValueError("momentum fills a queue of negatives: it needs info_nce or nt_xent")
        if "attention_mi" in kinds and self.data.kind != "texts":
            raise ValueError("attention_mi compares two views of one text")
        self._towers_fit(kinds)
        self._teacher_fits(kinds)
        self._groups_fit(kinds)
        self._dead_zones_fit()
        return self

    @property
    def joint(self) -> bool:
        """Whether its objectives look at both towers of a twin."""
        return any(OBJECTIVES[objective.kind].two_towers for objective in self.objectives)

    def _towers_fit(self, kinds: list[str]) -> None:
        """Objectives of twins keep to themselves."""
        if not self.joint:
            return
        alone = [kind for kind in kinds if not OBJECTIVES[kind].two_towers]
        if alone:
            raise ValueError(f"{alone[0]} looks at one encoder, and the others at two towers")
        if self.data.kind != "texts":
            raise ValueError(f"{kinds[0]} compares two views of one text")
        if self.projection != "none" or self.momentum is not None:
            raise ValueError(f"{kinds[0]} takes the towers' own states: no projection, no momentum")
        if self.tower is not None:
            raise ValueError(f"{kinds[0]} trains both towers: leave tower out")

    def _teacher_fits(self, kinds: list[str]) -> None:
        """Distillation compares each text with its teacher's vector, and nothing else."""
        if "distil" not in kinds:
            if self.teacher is not None:
                raise ValueError("a teacher is there for the objective distil")
            if self.projection in ("linear", "dense"):
                raise ValueError(f"projection: {self.projection} leads to a teacher's width")
            return
        if self.teacher is None:
            raise ValueError("distil needs a teacher")
        if len(kinds) > 1:
            raise ValueError("distil looks at one view of a text: it goes with no other objective")
        if self.data.kind != "texts":
            raise ValueError(f"distil learns from texts, not {self.data.kind}")
        if self.views or self.momentum is not None or self.projection == "mlp":
            raise ValueError("distil has no views, no momentum and no mlp")

    def _conditions_fit(self, kinds: list[str]) -> None:
        """Conditional data have a head of their own, and objectives that judge its scores."""
        if self.head is None:
            raise ValueError(
                f"conditional data need a head, one of: {', '.join(CONDITIONAL_HEADS)}"
            )
        for objective in self.objectives:
            judges = objective.graded and objective.kind != "cross_entropy"
            if not judges and not issubclass(OBJECTIVES[objective.kind], TripleObjective):
                raise ValueError(f"{objective.kind} does not learn from conditional data")
            own = objective.model_extra if objective.graded else None
            if "head" in objective.model_fields_set or own:
                raise ValueError(f"{objective.kind} judges the stage's head: leave its own out")
        if set(kinds) <= {"consistency"}:
            raise ValueError("consistency needs an objective beside it that learns from labels")
        if "quadruplet" in kinds and self.head.kind not in ("bi", "tri"):
            raise ValueError(f"quadruplet compares vectors, and {self.head.kind} has none")
        if self.views or self.projection != "none" or self.momentum is not None:
            raise ValueError("conditional data go without views, projection and momentum")
        if self.select is None:
            return
        if self.select.task == "STS-B":
            raise ValueError("select held-out or C-STS for conditional data")
        if self.select.task == "held-out" and self.data.folds is None:
            raise ValueError("select held-out needs data.folds")

    def _groups_fit(self, kinds: list[str]) -> None:
        """Contrastive tension cuts a batch into groups."""
        if kinds == ["masked_lm"]:
            raise ValueError("masked_lm is an auxiliary: add an objective beside it")
        if "contrastive_tension" not in kinds:
            return
        if self.data.kind != "texts":
            raise ValueError("contrastive_tension learns from single texts")
        for kind in kinds:
            if kind not in ("contrastive_tension", "masked_lm", "attention_mi"):
                raise ValueError(
                    f"{kind} pairs every text, and contrastive_tension one of each group: take one"
                )
        group = self.objectives[kinds.index("contrastive_tension")].settings()["negatives"] + 1
        if self.train.batch_size % group:
            raise ValueError(f"contrastive_tension needs a batch_size that {group} divides")

    def _dead_zones_fit(self) -> None:
        if self.data.labels is None:
            return
        labels = self.data.labels.build()
        for objective in self.objectives:
            default = _settings(objective.kind).get("threshold")
            threshold = default if objective.threshold is None else objective.threshold
            if threshold is not None:
                try:
                    labels.check_threshold(threshold)
                except TertiumError as error:
                    raise ValueError(str(error)) from error


class Recipe(_Spec):
    """A list of stages, each on the result of the one before."""

    summary: str
    source: str = ""  # paper, section and figure that the recipe follows
    published: Number | None = None  # the paper's own figure, STS average or C-STS, for the card
    extends: str | None = None
    encoder: EncoderSpec = EncoderSpec()
    stages: tuple[StageSpec, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _names_differ(self) -> "Recipe":
        names = [stage.name for stage in self.stages]
        if len(set(names)) != len(names):
            raise ValueError(f"two stages share a name: {', '.join(names)}")
        for stage in self.stages:
            if (stage.joint or stage.tower is not None) and self.encoder.towers == 1:
                raise ValueError(f"stage {stage.name} needs encoder.towers: 2")
            if stage.joint and self.encoder.pooling is not Pooling.CLS:
                raise ValueError(f"stage {stage.name} needs encoder.pooling: cls")
            if self.encoder.towers == 2 and stage.data.kind == "graded":
                raise ValueError(f"stage {stage.name}: twins do not learn from graded pairs here")
        last = self.stages[-1].data.kind
        if self.encoder.adapter_rank is not None and last not in ("graded", "conditional"):
            raise ValueError("adapter_rank needs a last stage on graded or conditional pairs")
        if any(stage.data.kind == "conditional" for stage in self.stages[:-1]):
            raise ValueError("a stage on conditional data is the last one")
        return self


def head_parameters(kind: str) -> Mapping[str, inspect.Parameter]:
    """What a pair head can be told."""
    return inspect.signature(HEADS[kind]).parameters


def _checked_settings(
    cls: Callable[..., Any], kind: str, given: dict[str, Any], from_model: dict[str, Any]
) -> dict[str, Any]:
    """What a class can be told, from its signature: given values checked, others by default.

    Args:
        cls: an objective, a view or a head.
        kind: its name.
        given: what the recipe says.
        from_model: stand-ins for arguments that the model will give, to try the others with.
    """
    fields: dict[str, Any] = {
        name: (
            Number if p.annotation is float else p.annotation,
            ... if p.default is p.empty else p.default,
        )
        for name, p in inspect.signature(cls).parameters.items()
        if name not in from_model
    }
    model = create_model(kind, __config__=ConfigDict(extra="forbid"), **fields)
    try:
        checked = model(**given)
        settings = {name: getattr(checked, name) for name in fields}
        cls(**from_model, **settings)
    except ValidationError as error:
        wrong = [f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()]
        raise ValueError(f"{kind}: {'; '.join(wrong)}") from error
    except TertiumError as error:
        raise ValueError(f"{kind}: {error}") from error
    return settings
