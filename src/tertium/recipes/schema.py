"""The schema of training recipes; everything is checked before anything runs."""

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from functools import cache
from typing import Annotated, Any, ClassVar, Generic, Literal, Self, TypeVar

import torch
import yaml
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
from tertium.data.columns import Columns
from tertium.data.labels import OrderedLabels
from tertium.errors import TertiumError, unknown_name
from tertium.heads import CONDITIONAL_HEADS, HEADS, ConditionalHead, ModelShape, PairHead
from tertium.objectives import OBJECTIVES, Objective, own_objective
from tertium.objectives.base import StagePart
from tertium.recipes.suites import check_suites
from tertium.types import DataKind, Pooling
from tertium.views import VIEWS, View, Vocabulary

__all__ = [
    "ConditionalHeadSpec",
    "DataSpec",
    "EncoderSpec",
    "EvaluateSpec",
    "FoldSpec",
    "LabelSpec",
    "MomentumSpec",
    "ObjectiveSpec",
    "PairHeadSpec",
    "PartSpec",
    "Recipe",
    "SelectSpec",
    "SourceSpec",
    "StageSpec",
    "TeacherSpec",
    "TrainSpec",
    "ViewSpec",
]


def _number(value: Any) -> Any:
    """YAML reads ``1e-5`` as text; convert it to the intended number."""
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


_LEARNS_FROM: dict[DataKind, str] = {
    "graded": "graded pairs",
    "texts": "texts",
    "positives": "positive pairs",
    "triplets": "triplets",
    "conditional": "conditional data",
}
# Arguments that a part gets from the model, the labels and the stage; all its other arguments are
# settings. These values stand in for the real ones when settings are checked.
_STAND_INS: dict[str, Any] = {
    "dimension": 1,
    "head": nn.Identity(),
    "high": 1.0,
    "low": 0.0,
    "outputs": 1,
    "seed": 0,
    "shape": ModelShape(dimension=1, embedding=1, heads=1, depth=1),
    "step": 1.0,
    "vocabulary": Vocabulary(
        size=1, padding=0, mask=0, boundaries=(), characters=torch.ones(1, dtype=torch.long)
    ),
}
T = TypeVar("T")


@contextmanager
def _as_mistake(whose: str = "") -> Iterator[None]:
    """Let pydantic report an error with its position in the recipe."""
    try:
        yield
    except TertiumError as error:
        raise ValueError(f"{whose}{error}") from error


class _Spec(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class EncoderSpec(_Spec):
    """The model to start from."""

    model: str = "default"
    pooling: Pooling | None = Pooling.MEAN  # None: the model's own
    normalize: bool = False
    max_length: int | None = Field(None, ge=2)
    layers: int | tuple[int, ...] | None = None  # number of layers to keep, or which, from 1
    towers: Literal[1, 2] = 1
    second: str | None = None  # the model of tower II (default: that of tower I)
    freeze: Literal["nothing", "embeddings"] = "nothing"
    freeze_layers: int = Field(0, ge=0)  # number of lowest layers that are not trained
    adapter_rank: int | None = Field(None, ge=1)
    adapter_factor: Number = Field(1.0, gt=0)  # scales the changes made by training
    trust_remote_code: bool = False  # run code that comes with the model

    @model_validator(mode="after")
    def _adapters_leave_embeddings(self) -> Self:
        if self.adapter_rank is not None and self.freeze != "embeddings":
            raise ValueError("adapter_rank needs freeze: embeddings")
        if self.freeze_layers and self.freeze != "embeddings":
            raise ValueError("freeze_layers needs freeze: embeddings")
        if self.adapter_rank is None and self.adapter_factor != 1:
            raise ValueError("adapter_factor needs adapter_rank")
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
    translation_of: str | None = None  # a file whose rows this file translates
    columns: dict[str, tuple[str, ...]] | None = None  # of a file: unusual names of columns
    strip_html: bool = False  # of a file: its texts are HTML
    part: str | None = None  # of a file: only rows with this value in the column split
    weight: Number = Field(1.0, gt=0)  # weight of each graded pair in the loss

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.name is None) == (self.file is None):
            raise ValueError("give either name (a benchmark set) or file")
        if self.file is None:
            own = {"translation_of", "columns", "strip_html", "part"} & self.model_fields_set
            if own:
                raise ValueError(f"{', '.join(sorted(own))} is for a file")
        self.mapped()
        if self.name is not None:
            if self.name not in DATASETS:
                raise ValueError(str(unknown_name("data set", self.name, DATASETS)))
            splits = DATASETS[self.name].rows
            if self.split not in splits:
                raise ValueError(str(unknown_name(f"split of {self.name}", self.split, splits)))
        return self

    def mapped(self) -> Columns:
        """The columns of a file."""
        known = [field.name for field in fields(Columns)[:-1]]
        for name in self.columns or {}:
            if name not in known:
                raise ValueError(str(unknown_name("field of columns", name, known)))
        return Columns(**(self.columns or {}), strip_html=self.strip_html)


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
    def _builds(self) -> Self:
        with _as_mistake():
            self.build()
        return self


class FoldSpec(_Spec):
    """Split the data by sentence pair, and hold out one fold to choose the checkpoint."""

    count: int = Field(5, ge=2)
    held_out: int = Field(0, ge=0)

    @model_validator(mode="after")
    def _exists(self) -> Self:
        if self.held_out >= self.count:
            raise ValueError(f"held_out counts from 0 to {self.count - 1}")
        return self


class DataSpec(_Spec):
    """The training data: graded pairs, single texts, positive pairs, triplets, or triples."""

    kind: DataKind = "graded"
    sources: tuple[SourceSpec, ...] = Field(min_length=1)
    labels: LabelSpec | None = None
    limit: int | None = Field(None, ge=2)
    published: int | None = Field(None, ge=1)  # number of examples in the paper
    subset: Literal["fixed", "by-seed"] = "fixed"  # which examples a limit keeps
    folds: FoldSpec | None = None
    reword: Number = Field(0.0, ge=0, le=1)  # share of conditions that are reworded

    @model_validator(mode="after")
    def _labels_where_graded(self) -> Self:
        labelled = self.kind in ("graded", "conditional")
        if (self.labels is not None) != labelled:
            raise ValueError(
                f"{self.kind} pairs need labels" if labelled else f"{self.kind} have no labels"
            )
        if labelled and self.subset == "by-seed":
            raise ValueError("subset: by-seed is for texts, positives and triplets")
        if self.folds is not None and not labelled:
            raise ValueError("folds are for graded pairs and conditional data")
        if self.kind != "graded" and any(source.weight != 1 for source in self.sources):
            raise ValueError("weight is for sources of graded pairs")
        if self.reword and self.kind != "conditional":
            raise ValueError("reword is for conditional data")
        if self.kind == "conditional" and self.labels is not None and self.labels.names:
            raise ValueError("conditional data have grades: give labels low and high")
        return self


class PartSpec(BaseModel, Generic[T]):
    """A view, head or objective: its kind, and the settings that its constructor takes.

    A kind without settings can be written as a plain name.
    """

    model_config = ConfigDict(frozen=True, extra="allow")

    what: ClassVar[str]
    registry: ClassVar[Mapping[str, Callable[..., Any]]]

    kind: str

    @model_validator(mode="before")
    @classmethod
    def _by_name(cls, value: Any) -> Any:
        return {"kind": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _is_known(self) -> Self:
        self.find(self.kind)
        self.example()
        return self

    @classmethod
    def find(cls, kind: str) -> Callable[..., Any]:
        """The class of this name."""
        if kind not in cls.registry:
            raise ValueError(str(unknown_name(cls.what, kind, cls.registry)))
        return cls.registry[kind]

    @property
    def makes(self) -> Callable[..., T]:
        """The class of this kind."""
        return self.find(self.kind)

    def takes(self, name: str) -> bool:
        """Whether the constructor has an argument of this name."""
        return _takes(self.makes, name)

    def settings(self) -> dict[str, Any]:
        """All validated settings, including the constructor's defaults."""
        checked = self._checked()
        return {name: getattr(checked, name) for name in type(checked).model_fields}

    def chosen(self) -> dict[str, Any]:
        """The validated settings that the recipe states."""
        checked = self._checked()
        return {name: getattr(checked, name) for name in checked.model_fields_set}

    def build(self, **given: Any) -> T:
        """Build the part, with those of the ``given`` arguments that its constructor takes."""
        taken = {name: value for name, value in given.items() if self.takes(name)}
        return self.makes(**taken, **self.chosen())

    def example(self) -> T:
        """Build one without a model; raises if a setting is wrong."""
        with _as_mistake(f"{self.kind}: "):
            return self.build(**_STAND_INS)

    def _stated(self) -> dict[str, Any]:
        """The constructor's arguments that the recipe states."""
        return self.model_extra or {}

    def _checked(self) -> BaseModel:
        try:
            return _settings_model(self.makes)(**self._stated())
        except ValidationError as error:
            wrong = [f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()]
            raise ValueError(f"{self.kind}: {'; '.join(wrong)}") from error


@cache
def _settings_model(makes: Callable[..., Any]) -> type[BaseModel]:
    """A model that validates the settings of a constructor."""
    fields: dict[str, Any] = {
        name: (
            Number if p.annotation is float else p.annotation,
            ... if p.default is p.empty else p.default,
        )
        for name, p in inspect.signature(makes).parameters.items()
        if name not in _STAND_INS and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    }
    return create_model("settings", __config__=ConfigDict(extra="forbid"), **fields)


class ViewSpec(PartSpec[View]):
    """One step of making the second view of a sentence."""

    what: ClassVar[str] = "view"
    registry: ClassVar[Mapping[str, Callable[..., Any]]] = VIEWS

    scores_from: Literal["model", "frozen"] = "model"

    @model_validator(mode="after")
    def _scores_tokens(self) -> Self:
        if "scores_from" in self.model_fields_set and not VIEWS[self.kind].scores_tokens:
            which = " or ".join(kind for kind, view in VIEWS.items() if view.scores_tokens)
            raise ValueError(f"{self.kind} scores nothing: scores_from belongs to {which}")
        return self


class PairHeadSpec(PartSpec[PairHead]):
    """A head that compares two embeddings."""

    what: ClassVar[str] = "head"
    registry: ClassVar[Mapping[str, Callable[..., Any]]] = HEADS

    kind: str = next(iter(HEADS))


class ConditionalHeadSpec(PartSpec[ConditionalHead]):
    """A head that compares two sentences under a condition."""

    what: ClassVar[str] = "conditional head"
    registry: ClassVar[Mapping[str, Callable[..., Any]]] = CONDITIONAL_HEADS


class ObjectiveSpec(PartSpec[Objective]):
    """One objective, its weight, and the head of an objective that compares scores with labels.

    Settings of the head can also be given beside it: ``head: siamese, features: [u]`` is the same
    as ``head: {kind: siamese, features: [u]}``.
    """

    what: ClassVar[str] = "objective"
    registry: ClassVar[Mapping[str, Callable[..., Any]]] = OBJECTIVES

    weight: Number = 1.0
    head: PairHeadSpec | None = None

    @model_validator(mode="before")
    @classmethod
    def _head_settings_beside(cls, value: Any) -> Any:
        """Move settings that only the head has into the head."""
        kind = value.get("kind") if isinstance(value, dict) else None
        if not isinstance(kind, str) or (kind not in OBJECTIVES and ":" not in kind):
            return value
        head, objective = value.get("head") or {}, cls.find(kind)
        if objective.needs_head != "pair" or not isinstance(head, str | dict):
            return value
        own = {*cls.model_fields, *_settings_model(objective).model_fields}
        beside = {name: item for name, item in value.items() if name not in own}
        if not beside:
            return value
        given = {"kind": head} if isinstance(head, str) else head
        name = given.get("kind", PairHeadSpec.model_fields["kind"].default)
        known = _settings_model(HEADS[name]).model_fields if name in HEADS else beside
        unknown = [each for each in beside if each not in known]
        if unknown:
            raise ValueError(
                f"neither {kind} nor the head {name} has a setting {', '.join(unknown)}"
            )
        rest = {name: item for name, item in value.items() if name in own}
        return {**rest, "head": {**given, **beside}}

    @model_validator(mode="after")
    def _head_fits(self) -> Self:
        if self.declares.classifies and self.head is not None and not self.head.takes("outputs"):
            able = [kind for kind, head in HEADS.items() if _takes(head, "outputs")]
            raise ValueError(
                f"{self.kind} classifies: it needs a head with several outputs, such as {able[0]}"
            )
        return self

    @classmethod
    def find(cls, kind: str) -> type[Objective]:
        """The class of this name; ``module:Class`` is a user-defined one."""
        if ":" not in kind:
            return super().find(kind)  # type: ignore[return-value]
        with _as_mistake():
            return own_objective(kind)

    @property
    def declares(self) -> type[Objective]:
        """The class, which declares its requirements."""
        return self.find(self.kind)

    def _stated(self) -> dict[str, Any]:
        stated = super()._stated()
        if self.declares.needs_head != "pair" and "head" in self.model_fields_set:
            return {**stated, "head": self.head}
        return stated


def _takes(makes: Callable[..., Any], name: str) -> bool:
    return name in inspect.signature(makes).parameters


class TrainSpec(_Spec):
    """How long and how fast to train; see :class:`tertium.training.Schedule`."""

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
    bucket: bool | None = None  # by default if the examples of a batch are not compared
    checkpoint_every: int = Field(500, ge=1)
    precision: Literal["float32", "bf16", "fp16"] = "float32"
    on_collapse: Literal["stop", "continue"] = "stop"
    report_to: tuple[Tracker, ...] = ()


class SelectSpec(_Spec):
    """The score that selects the checkpoint to keep."""

    task: Literal["STS-B", "C-STS", "held-out"] = "STS-B"
    split: Literal["dev", "validation"] = "dev"
    text: Literal["senteval", "raw"] = "raw"
    every: int = Field(250, ge=1)

    @model_validator(mode="after")
    def _split_exists(self) -> Self:
        if (self.task == "C-STS") != (self.split == "validation"):
            raise ValueError("C-STS has split: validation, the others split: dev")
        return self


class MomentumSpec(_Spec):
    """A slow copy of the encoder that fills a queue of negatives."""

    queue: int = Field(384, ge=1)
    decay: Number = Field(0.995, ge=0, le=1)
    dropout: Number = Field(0.3, ge=0, lt=1)


class TeacherSpec(_Spec):
    """Models whose embeddings a student learns: their sum, or JTCSE-UC's weighted sum.

    For conditional data, models whose mean score it learns in addition to the labels.
    """

    models: tuple[str, ...] = Field(min_length=1)
    weight: Number | None = Field(None, gt=0, lt=1)  # weight of the last model
    pooling: Pooling | None = None  # None: each model's own
    share: Number | None = Field(None, ge=0, le=1)  # weight of its score in a triple's target
    unlabelled: int = Field(0, ge=0)  # further triples per sentence pair, which only it grades

    @model_validator(mode="after")
    def _weight_has_company(self) -> Self:
        if self.weight is not None and len(self.models) < 2:
            raise ValueError("weight is that of the last of several models")
        return self


class StageSpec(_Spec):
    """One stage: data, views, objectives, schedule, selection."""

    name: str = Field(pattern=r"^[a-z0-9-]+$")
    tower: Literal["first", "second"] | None = None  # train only this tower of a twin
    data: DataSpec
    views: tuple[ViewSpec, ...] = ()
    teacher: TeacherSpec | None = None
    projection: Literal["none", "mlp", "linear", "dense"] = "none"
    momentum: MomentumSpec | None = None
    head: ConditionalHeadSpec | None = None  # for conditional data
    keep_head: bool = False  # start from the head that the previous stage trained
    objectives: tuple[ObjectiveSpec, ...] = Field(min_length=1)
    train: TrainSpec = TrainSpec()
    select: SelectSpec | None = None

    @property
    def pair_head(self) -> PairHeadSpec | None:
        """The head that it trains on graded pairs, if any."""
        for objective in self.objectives:
            if objective.declares.needs_head == "pair" and not objective.declares.classifies:
                return objective.head or PairHeadSpec()
        return None

    @property
    def joint(self) -> bool:
        """Whether its objectives use both towers of a twin."""
        return any(objective.declares.two_towers for objective in self.objectives)

    @model_validator(mode="after")
    def _parts_fit(self) -> Self:
        kinds = [objective.kind for objective in self.objectives]
        if len(set(kinds)) != len(kinds):
            raise ValueError(f"two objectives are of the same kind: {', '.join(kinds)}")
        self._data_fit()
        self._objectives_fit_data()
        self._objectives_get_what_they_need()
        self._objectives_fit_each_other()
        return self

    def _data_fit(self) -> None:
        """Check the kind of data against the other parts."""
        kind = self.data.kind
        task = None if self.select is None else self.select.task
        if kind == "conditional" and self.head is None:
            known = ", ".join(CONDITIONAL_HEADS)
            raise ValueError(f"conditional data need a head, one of: {known}")
        if self.head is not None:
            if kind not in ("conditional", "graded"):
                raise ValueError(
                    "head is for conditional data, or for graded pairs that it reads together; "
                    "objectives have heads of their own"
                )
            if kind == "graded" and len(self.head.example().layout.sequences) != 1:
                raise ValueError("a head on graded pairs reads both texts together: take cross")
            if kind == "conditional" and self.head.example().layout.as_pair:
                raise ValueError(f"the head {self.head.kind} reads pairs, and no condition")
            if self.views or self.projection != "none" or self.momentum is not None:
                raise ValueError(f"a head on {kind} data goes without views, projection, momentum")
            if kind == "conditional" and task == "STS-B":
                raise ValueError("select held-out or C-STS for conditional data")
            if kind == "graded" and task == "C-STS":
                raise ValueError("select C-STS is for conditional data")
            if task == "held-out" and self.data.folds is None:
                raise ValueError("select held-out needs data.folds")
            return
        if self.data.folds is not None:
            raise ValueError("folds are for a stage with a head of its own")
        if task == "C-STS":
            raise ValueError("select C-STS is for conditional data")
        if self.views and self.data.kind != "texts":
            raise ValueError(f"views are made of single texts, and the data are {self.data.kind}")
        if task == "held-out" and self.data.kind in ("positives", "triplets"):
            raise ValueError(
                f"select held-out holds out texts or graded pairs, not {self.data.kind}"
            )

    def _objectives_fit_data(self) -> None:
        labels = None if self.data.labels is None else self.data.labels.build()
        for objective in self.objectives:
            able = objective.declares.learns_from
            if self.data.kind not in able:
                known = " or ".join(name for kind, name in _LEARNS_FROM.items() if kind in able)
                raise ValueError(
                    f"{objective.kind} learns from {known}, not {_LEARNS_FROM[self.data.kind]}"
                )
            if self.head is not None and "head" in objective.model_fields_set:
                raise ValueError(f"{objective.kind} compares the stage's head: leave its own out")
            threshold = objective.example().threshold
            if labels is not None and threshold is not None:
                with _as_mistake():
                    labels.check_threshold(threshold)

    def _objectives_get_what_they_need(self) -> None:
        declared = {objective.kind: objective.declares for objective in self.objectives}
        if self.momentum is not None and not any(o.takes_queue for o in declared.values()):
            able = " or ".join(kind for kind, known in OBJECTIVES.items() if known.takes_queue)
            raise ValueError(f"momentum fills a queue of negatives: it needs {able}")
        taught = [kind for kind, objective in declared.items() if objective.needs_teacher]
        if taught and self.teacher is None:
            raise ValueError(f"{taught[0]} needs a teacher")
        if self.teacher is not None and self.head is not None:
            self._grader_fits(self.teacher)
        elif not taught and self.teacher is not None:
            able = " or ".join(kind for kind, known in OBJECTIVES.items() if known.needs_teacher)
            raise ValueError(f"a teacher is there for the objective {able}")
        if self.teacher is None and self.projection in ("linear", "dense"):
            raise ValueError(f"projection: {self.projection} leads to a teacher's width")
        for kind, objective in declared.items():
            if not objective.needs_vectors or self.head is None:
                continue
            if not self.head.example().compares_vectors:
                raise ValueError(f"{kind} compares vectors, and {self.head.kind} has none")

    @staticmethod
    def _grader_fits(teacher: TeacherSpec) -> None:
        if teacher.weight is not None or teacher.pooling is not None:
            raise ValueError("weight and pooling are for a teacher of embeddings")
        if teacher.share is None:
            raise ValueError("a teacher of conditional data needs its share of the target")

    def _objectives_fit_each_other(self) -> None:
        declared = {objective.kind: objective.declares for objective in self.objectives}
        present: dict[StagePart, bool] = {
            "other objectives": len(declared) > 1,
            "views": bool(self.views),
            "momentum": self.momentum is not None,
            "projection: mlp": self.projection == "mlp",
            "tower": self.tower is not None,
        }
        for kind, objective in declared.items():
            for part, reason in objective.excludes.items():
                if present[part]:
                    raise ValueError(f"{kind} does not go with {part}: {reason}")
        if all(objective.auxiliary for objective in declared.values()):
            raise ValueError(
                f"{' and '.join(declared)} is an auxiliary: add an objective beside it"
            )
        single = [kind for kind, objective in declared.items() if not objective.two_towers]
        if self.joint and single:
            raise ValueError(f"{single[0]} looks at one encoder, and the others at two towers")
        for spec in self.objectives:
            stride = spec.example().anchor_stride
            if stride == 1:
                continue
            whole = [kind for kind, objective in declared.items() if objective.pairs_rows]
            if whole:
                raise ValueError(
                    f"{whole[0]} pairs every text, and {spec.kind} one of each group: take one"
                )
            if self.train.batch_size % stride:
                raise ValueError(f"{spec.kind} needs a batch_size that {stride} divides")


class EvaluateSpec(_Spec):
    """The evaluation of the finished model; can be given as a list of suites."""

    suites: tuple[str, ...] = Field(min_length=1)
    precision: Literal["float32", "bf16"] = "float32"

    @model_validator(mode="before")
    @classmethod
    def _by_list(cls, value: Any) -> Any:
        return {"suites": value} if isinstance(value, list | tuple) else value

    @model_validator(mode="after")
    def _are_known(self) -> Self:
        with _as_mistake():
            check_suites(self.suites)
        return self


class Recipe(_Spec):
    """How a model is trained: an encoder, and stages that each continue from the previous one."""

    summary: str
    source: str = ""  # paper, section and figure that the recipe follows
    published: Number | None = None  # the paper's score, STS average or C-STS, for the card
    published_transfer: Number | None = None  # the paper's average over transfer tasks
    encoder: EncoderSpec = EncoderSpec()
    stages: tuple[StageSpec, ...] = Field(min_length=1)
    evaluate: EvaluateSpec | None = None  # default: sts, or csts after conditional data

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
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
        short = self.encoder.adapter_rank is not None and self.encoder.layers is not None
        if short and self.stages[-1].data.kind in ("graded", "conditional"):
            raise ValueError(
                "the adapter of a model that grades belongs to one with all its layers: leave "
                "encoder.layers or encoder.adapter_rank out"
            )
        for before, stage in zip((None, *self.stages), self.stages, strict=False):
            if not stage.keep_head:
                continue
            own, kept = stage.pair_head, None if before is None else before.pair_head
            if own is None or kept is None or own.settings() != kept.settings():
                raise ValueError(
                    f"stage {stage.name}: keep_head needs the same head in the stage before, and "
                    "grades in both"
                )
        if any(stage.data.kind == "conditional" for stage in self.stages[:-1]):
            raise ValueError("a stage on conditional data is the last one")
        return self

    def to_dict(self) -> dict[str, Any]:
        """The recipe as plain values, without defaults."""
        return self.model_dump(mode="json", exclude_unset=True)

    def to_yaml(self) -> str:
        """The same as a recipe file."""
        return yaml.safe_dump(self.to_dict(), sort_keys=False, allow_unicode=True)
