"""The contract: what every model can be asked, whatever computes its answers."""

from __future__ import annotations

import hashlib
import json
import tempfile
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypedDict

import numpy as np
from numpy.typing import NDArray

from tertium.errors import TertiumError
from tertium.models.passages import Alignment, Span, align, cut_long
from tertium.models.tokens import (
    BlankConditionWarning,
    TokenizationStats,
    check_texts,
    check_triples,
    flat_pairs,
    unique,
)
from tertium.records.manifest import DECISION, Manifest
from tertium.types import Engine, Hit, Kind, Pooling, TextPair, TextTriple

if TYPE_CHECKING:
    from torch import Tensor

    from tertium.explain import Explanation
    from tertium.models.encoder import Encoder
    from tertium.models.text_encoder import TextEncoder
    from tertium.records.decision import Decision, Verdict
    from tertium.records.manifest import TrainingData

__all__ = [
    "Embedder",
    "EncodeOptions",
    "Member",
    "Model",
    "Order",
    "Part",
    "TripleScorer",
    "cosine_rows",
    "digest",
    "unit_rows",
]

Matrix = NDArray[np.float32]
Grade = Callable[[list[TextPair], Matrix, Matrix], Matrix]
Order = Literal["given", "both"]
_MOST_PASSAGES = 64  # of a text: all pairs of passages are read together

# Tokens per batch, padding included. On a processor small batches stay in its caches
# (benchmarks/encode.py); an accelerator wants to be filled.
_PROCESSOR_BUDGET = 1024
_ACCELERATOR_BUDGET = 32_768


class EncodeOptions(TypedDict, total=False):
    """What :meth:`Encoder.encode` can be told; see there."""

    normalize: bool
    prompt: str | None
    token_budget: int | None
    progress: bool | None
    truncation: TokenizationStats | None
    # As sentence-transformers spells them.
    batch_size: int | None
    normalize_embeddings: bool
    show_progress_bar: bool | None
    convert_to_numpy: bool


class Model(ABC):
    """What :func:`tertium.load` gives: scores of pairs or triples of texts, on a scale of its own.

    Attributes:
        takes_conditions: whether it compares triples (two texts and a condition), not pairs.
        reads_together: whether it scores pairs by reading both texts, so that vectors do not do.
        decision: what ``tertium fit`` found for it: thresholds and calibrations; else None.
        decision_around: the decision of the model that this one gives the vectors of, if any.
        name_around: the name of that model.
    """

    takes_conditions: ClassVar[bool] = False
    reads_together: ClassVar[bool] = False
    decision: Decision | None = None
    decision_around: Decision | None = None
    name_around: str | None = None

    @property
    def cosine_decision(self) -> Decision | None:
        """What its cosines are judged by: its own decision, or that of the model around it."""
        return self.decision or self.decision_around

    @property
    @abstractmethod
    def name(self) -> str:
        """What results call the model."""

    @property
    @abstractmethod
    def kind(self) -> Kind:
        """What ``tertium.json`` calls it."""

    @property
    @abstractmethod
    def scale(self) -> tuple[float, float]:
        """Lowest and highest score."""

    @property
    def members(self) -> tuple[Member, ...]:
        """Encoders or conditional scorers inside, and how much each contributes.

        A model that is one of these is its own only member; a mixture has several; a model that
        is not made of any has none.
        """
        return ()

    @property
    def pooling(self) -> Pooling | None:
        """How token vectors become sentence vectors, where all members do it alike."""
        poolings = {member.model.pooling for member in self.members}
        return poolings.pop() if len(poolings) == 1 else None

    @property
    def training_data(self) -> tuple[TrainingData, ...]:
        """What any of the members has seen."""
        return tuple(dict.fromkeys(d for each in self.members for d in each.model.training_data))

    @property
    def readers(self) -> tuple[TextEncoder, ...]:
        """All encoders inside, whatever runs them: they know how texts are read."""
        return tuple(reader for member in self.members for reader in member.model.readers)

    @property
    def encoders(self) -> tuple[Encoder, ...]:
        """All encoders inside as torch runs them, loaded now where something else did so far."""
        return tuple(member.encoder for member in self.members)

    @property
    def encoder(self) -> Encoder:
        """The only encoder inside, as torch runs it: for what trains a model or looks into it."""
        encoders = self.readers
        if len(encoders) == 1:
            return encoders[0].encoder
        if not encoders:
            raise TertiumError(f"{self.name} is not made of encoders: there is none to look into.")
        what, remedy = "ensemble", f", or make one of them: tertium distil {self.name} "
        remedy += "--student MODEL --texts FILE -o DIR"
        if self.takes_conditions:
            what, remedy = "average", "."
        raise TertiumError(
            f"{self.name} is an {what} of {len(encoders)} models, and this takes a single one. "
            f"Name a member{remedy}"
        )

    @property
    def parts(self) -> tuple[Part, ...]:
        """What an engine can run instead of torch, each as one graph."""
        return tuple(part for member in self.members for part in member.model.parts)

    @property
    def vector_model(self) -> Model:
        """What gives the vectors: the model itself, or the one inside that does."""
        return self

    @property
    def fingerprint(self) -> str:
        """The hash of all that decides about its scores; its name does not. Weights are read.

        A model that is not made of encoders is told by its name, unless it says more itself.
        """
        if not self.members:
            width = getattr(self, "dimension", None)
            return digest({"name": self.name, "pooling": self.pooling, "dimension": width})
        members = [[repr(each.weight), each.model.fingerprint] for each in self.members]
        return digest({"kind": self.kind, "members": members})

    @abstractmethod
    def score(self, items: Iterable[Any], **options: Any) -> Matrix:
        """Scores of pairs, or of triples for a model that takes conditions, within the scale.

        Args:
            items: in any number; scores are in their order.
            options: ``progress`` (False for no progress on standard error), ``truncation`` (counts
                cut texts instead of warning), and more by the kind of model.
        """

    def decide(self, items: Iterable[Any], **options: Any) -> list[Verdict]:
        """Yes or no, probability and grade of pairs or triples, by what was fitted.

        Args:
            items: as :meth:`score` takes them.
            options: of :meth:`score`.
        """
        if self.decision is None:
            raise TertiumError(
                f"{self.name} has no threshold. Fit one on labelled pairs: tertium fit {self.name} "
                "PAIRS -o DIR"
            )
        return self.decision.verdicts(self.score(items, **options))

    @abstractmethod
    def score_items(
        self, items: Sequence[tuple[str, ...]], *, truncation: TokenizationStats | None = None
    ) -> Matrix:
        """Scores of pairs or triples, also beyond the scale if the model goes there.

        Args:
            items: pairs, or triples for a model that takes conditions.
            truncation: count cut texts here instead of warning.
        """

    def align(
        self, items: Sequence[tuple[str, ...]], *, prompt: str | None = None
    ) -> Alignment | None:
        """Pairs or triples in passages, if texts are longer than the model reads; else None.

        Their score is then the mean over the passages of both texts, each text half of it, where a
        passage counts as much as it scores with the best passage of the other text. A model that
        reads both texts together reads at most 64 passages of each.

        Args:
            items: pairs, or triples for a model that takes conditions.
            prompt: put before every passage (default: that of the model).
        """
        together = self.reads_together or self.takes_conditions
        spans = self._passages(items, prompt)
        return align(items, spans, most=_MOST_PASSAGES if together else None)

    def _passages(
        self, items: Sequence[tuple[str, ...]], prompt: str | None = None
    ) -> list[list[Span]]:
        """The passages of first and second texts in turn; none for what is read whole."""
        return cut_long(self, [text for item in items for text in item[:2]], prompt=prompt)

    @abstractmethod
    def save(self, folder: Path | str) -> None:
        """Save whole, so that :func:`tertium.load` restores it."""

    def explain(
        self,
        a: str,
        b: str,
        *,
        condition: str | None = None,
        method: str = "occlusion",
        steps: int | None = None,
        by: float | None = None,
        most: int = 6,
    ) -> Explanation:
        """Say which words made the score of two texts.

        Every word is left out in turn, and the rest is scored again: this is exact, and any model
        can be asked so. What torch runs also shows which words of both texts belong together and,
        under a condition, where attention goes. Integrated gradients change what the model's word
        table gives while they are computed: no other thread may use the model then.

        Args:
            a: the first text.
            b: the second text.
            condition: the respect in which they are compared, for a model that takes conditions.
            method: ``occlusion``, or ``gradients`` for integrated gradients beside it, which need
                captum and a model run by torch.
            steps: points of that integral (default: as many as it takes for an error below 1 %).
            by: how far the smallest change shall move the score (default: one point; where a score
                is a cosine, 0.2).
            most: words that the smallest change may take; 0 leaves the search out.

        Example:
            >>> import tertium
            >>> found = tertium.load("sts").explain("A cat sleeps.", "A cat is asleep.")
            >>> max(zip(found.occlusion[0], found.words[0]), key=lambda pair: pair[0])[1].text
            'cat'
        """
        import tertium

        found: Explanation = tertium.explain_score(
            self, a, b, condition=condition, method=method, steps=steps, by=by, most=most
        )
        return found

    def rank(
        self,
        query: str,
        texts: Sequence[str],
        *,
        condition: str | None = None,
        top_k: int | None = None,
    ) -> list[Hit]:
        """The texts by their score with ``query``, best first.

        Args:
            query: compared with each text.
            texts: to be ranked; a hit's ``id`` is the place of its text in them.
            condition: the respect in which they are compared, for a model that takes conditions.
            top_k: how many (default: all).
        """
        texts = list(texts)
        if not texts:
            return []
        scores = self._scores(query, texts, condition)
        best = np.argsort(-scores, kind="stable")[:top_k]
        return [Hit(str(at), texts[at], float(scores[at])) for at in best]

    def push_to_hub(
        self,
        repo_id: str,
        *,
        private: bool | None = None,
        revision: str | None = None,
        commit_message: str = "Add a model of tertium",
        token: str | None = None,
    ) -> str:
        """Save the model in a repository of the Hugging Face hub; gives the commit's address.

        Args:
            repo_id: ``organisation/name``; made if there is none.
            private: whether a new repository is (default: as the organisation has it).
            revision: branch to commit to (default: the main one).
            commit_message: of the commit.
            token: of the hub (default: that of ``hf auth login``).
        """
        from huggingface_hub import HfApi

        hub = HfApi(token=token)
        with tempfile.TemporaryDirectory() as folder:
            self.save(Path(folder) / "model")
            hub.create_repo(repo_id, private=private, exist_ok=True)
            commit = hub.upload_folder(
                repo_id=repo_id,
                folder_path=Path(folder) / "model",
                revision=revision,
                commit_message=commit_message,
            )
        return str(commit.commit_url)

    def check_condition(self, condition: str | None) -> None:
        """Raise if there is a condition and the model takes none."""
        if condition is not None and not self.takes_conditions:
            raise TertiumError(
                f"{self.name} does not take conditions: leave the condition out, or take "
                "conditional or another model that does."
            )

    def __repr__(self) -> str:
        low, high = self.scale
        pooling = "" if self.pooling is None else f", pooling={str(self.pooling)!r}"
        inside = ""
        if len(self.members) > 1:
            inside = f", members={[member.model.name for member in self.members]}"
        return f"{type(self).__name__}({self.name!r}{pooling}, scale=({low:g}, {high:g}){inside})"

    def _manifest(self, **details: Any) -> Manifest:
        """What a saved folder says about the model."""
        return Manifest(
            kind=self.kind,
            pooling=self.pooling,
            scale=self.scale,
            training_data=self.training_data,
            details=details,
        )

    def _decided(self) -> dict[str, Any]:
        """What a manifest's details say of the decision."""
        return {} if self.decision is None else {DECISION: self.decision.model_dump(mode="json")}

    @abstractmethod
    def _scores(self, query: str, texts: Sequence[str], condition: str | None) -> Matrix:
        """Scores of ``query`` with each text."""


class Part(Model):
    """A model that an engine can run as one graph: an encoder, or a conditional scorer.

    Attributes:
        engine: runs the model instead of torch, if there is one.
        token_budget: tokens per batch, padding included (default: by device).
        device_kind: ``cpu``, ``cuda`` and so on.
    """

    engine: Engine | None = None
    token_budget: int | None = None
    device_kind: str = "cpu"

    @property
    def workers(self) -> int:
        """Batches that are run at once: as many as the engine says, else 1."""
        return int(getattr(self.engine, "workers", 1))

    @property
    def needs_engine(self) -> bool:
        """Whether the model was read without torch, so that only an engine can run it."""
        return False

    @property
    def members(self) -> tuple[Member, ...]:
        """The model itself."""
        return (Member(self),)

    @property
    def parts(self) -> tuple[Part, ...]:
        """The model itself."""
        return (self,)

    @property
    @abstractmethod
    def graph_fingerprint(self) -> str:
        """The hash of all that its graph depends on: weights, configuration and pooling."""

    def _look(self, inputs: Mapping[str, NDArray[Any]], *names: str) -> list[NDArray[Any]]:
        """Outputs of the engine's graph beside its results.

        Raises:
            TertiumError: the engine does not show them.
        """
        if self.engine is None or not set(names) <= set(getattr(self.engine, "shows", ())):
            engine = "no engine" if self.engine is None else self.engine.name
            raise TertiumError(
                f"{self.name} is run by {engine}, which shows nothing but scores: for alignment "
                "and attention take the engine torch."
            )
        return self.engine.look(inputs, names)

    def _default_budget(self) -> int:
        """Tokens of a batch."""
        if self.token_budget is not None:
            return self.token_budget
        return _PROCESSOR_BUDGET if self.device_kind == "cpu" else _ACCELERATOR_BUDGET

    def save_member(self, folder: Path) -> None:
        """Save as a member of a mixture: as small as it was loaded."""
        self.save(folder)


@dataclass(frozen=True)
class Member:
    """A model of a mixture and the factor of what it gives."""

    model: Any  # an encoder, or a conditional scorer
    weight: float = 1.0

    @property
    def encoder(self) -> Encoder:
        """The member's encoder."""
        found: Encoder = self.model.encoder
        return found


class Embedder(Model):
    """A model that turns each text into a vector and compares vectors.

    A class of your own needs ``name``, ``dimension`` and ``encode``: all else follows from them.
    """

    @property
    def kind(self) -> Kind:
        """What ``tertium.json`` calls it."""
        return Kind.ENCODER

    @property
    def scale(self) -> tuple[float, float]:
        """That of the cosine."""
        return -1.0, 1.0

    @property
    @abstractmethod
    def dimension(self) -> int:
        """Width of an embedding."""

    @property
    def prompts(self) -> dict[str, str]:
        """What the model was trained to have before texts, by the use that is made of them."""
        readers = self.readers
        return readers[0].prompts if len(readers) == 1 and readers[0] is not self else {}

    @abstractmethod
    def encode(self, texts: str | Sequence[str], **options: Any) -> Any:
        """One row per text, in input order; a single string gives a single vector."""

    def save(self, folder: Path | str) -> None:
        """Not every embedder can be saved."""
        raise TertiumError(f"{self.name} cannot be saved: it is not a model of tertium.")

    def score(self, items: Iterable[TextPair], **options: Any) -> Matrix:
        """Score of each pair, within the scale, in input order; options of :meth:`encode`.

        Texts that are longer than the model reads are compared by their passages: :meth:`align`.
        """
        return self._graded(items, self._grade_pairs, **options)[0].clip(*self.scale)

    def cosine(self, pairs: Iterable[TextPair], **options: Any) -> Matrix:
        """Cosine of each pair's embeddings; options of :meth:`encode`."""
        return self._graded(pairs, _cosine_pairs, **options)[0]

    def score_and_cosine(self, pairs: Iterable[TextPair], **options: Any) -> tuple[Matrix, Matrix]:
        """What :meth:`score` and :meth:`cosine` give, with every text encoded once."""
        grades, cosines = self._graded(pairs, self._grade_pairs, _cosine_pairs, **options)
        return grades.clip(*self.scale), cosines

    def score_items(
        self, items: Sequence[tuple[str, ...]], *, truncation: TokenizationStats | None = None
    ) -> Matrix:
        """Scores of pairs, also beyond the scale if the model goes there."""
        pairs = [(a, b) for a, b in items]
        options = {} if truncation is None else {"truncation": truncation}
        return self._graded(pairs, self._grade_pairs, **options)[0]

    def score_vectors(self, first: Matrix, second: Matrix) -> Matrix:
        """What :meth:`score` makes of two texts' vectors, row by row."""
        return self.grade_vectors(first, second).clip(*self.scale)

    def grade_vectors(self, first: Matrix, second: Matrix) -> Matrix:
        """The same before it is moved into the scale; by default the cosine."""
        return cosine_rows(first, second)

    def compare(self, first: Tensor, second: Tensor) -> Tensor:
        """What :meth:`grade_vectors` computes, in torch and with gradients."""
        from tertium.functional.similarity import cosine_pairs

        return cosine_pairs(first, second)

    def similarity(self, a: Any, b: Any = None) -> Matrix:
        """The score of every one of ``a`` with every one of ``b``, as a matrix.

        Args:
            a: texts, or their embeddings.
            b: likewise (default: ``a``).
        """
        one, other = (_texts(side) for side in (a, a if b is None else b))
        if one and other and (self.reads_together or any(cut_long(self, [*one, *other]))):
            return self.score(list(product(one, other))).reshape(len(one), len(other))
        first = self._vectors(a)
        second = first if b is None else self._vectors(b)
        return self._grade_matrix(first, second).clip(*self.scale)

    def _grade_matrix(self, first: Matrix, second: Matrix) -> Matrix:
        return unit_rows(first) @ unit_rows(second).T

    def _vectors(self, texts: Any) -> Matrix:
        if (read := _texts(texts)) is not None:
            return np.asarray(self.encode(read))
        rows = texts.detach().cpu() if hasattr(texts, "detach") else texts
        return np.atleast_2d(np.asarray(rows, dtype=np.float32))

    def _graded(self, items: Iterable[TextPair], *grades: Grade, **options: Any) -> list[Matrix]:
        """What some grades make of pairs and their vectors; of long texts, of their passages."""
        flat = check_texts(flat_pairs(items))
        pairs = list(zip(flat[0::2], flat[1::2], strict=True))
        alignment = self.align(pairs, prompt=options.get("prompt"))
        rows = np.asarray(self.encode(flat if alignment is None else alignment.parts, **options))
        if alignment is None:
            return [grade(pairs, rows[0::2], rows[1::2]) for grade in grades]
        return [alignment.score_vectors(rows, grade) for grade in grades]

    def _grade_pairs(self, pairs: list[TextPair], first: Matrix, second: Matrix) -> Matrix:
        return self.grade_vectors(first, second)

    def _scores(self, query: str, texts: Sequence[str], condition: str | None) -> Matrix:
        self.check_condition(condition)
        return self.score([(query, text) for text in texts])


class TripleScorer(Model):
    """A model that compares sentences under a condition: ``score([(s1, s2, condition), …])``."""

    kind = Kind.CONDITIONAL
    takes_conditions: ClassVar[bool] = True

    @abstractmethod
    def grade(
        self, triples: list[TextTriple], *, progress: bool | None, truncation: TokenizationStats
    ) -> Matrix:
        """Scores of distinct triples, which may lie beyond the scale."""

    def score(  # type: ignore[override]
        self,
        items: Iterable[TextTriple],
        *,
        order: Order = "given",
        within_scale: bool = True,
        progress: bool | None = None,
        truncation: TokenizationStats | None = None,
    ) -> Matrix:
        """Similarity of each triple, within the scale, in input order.

        Each distinct triple is scored once, in batches of like length. A blank condition is left
        out and the sentences are compared without one, which one warning per call reports; an empty
        sentence is read as the model's special tokens only. Texts that exceed the model's length
        are compared by their passages (:meth:`align`), each with the condition.

        Args:
            items: two sentences and a condition each.
            order: a cross-encoder may answer differently when the sentences change places;
                ``both`` gives the mean of both answers. Bi- and tri-encoders do not care.
            within_scale: move what lies beyond the scale to its end; without that a half-trained
                model's scores can still be ranked.
            progress: False for no progress on standard error.
            truncation: count cut triples here instead of warning, for a report over several calls.
        """
        checked = check_triples(items)
        blank = sum(1 for triple in checked if not triple[2].strip())
        if blank:
            warnings.warn(
                f"{blank} of {len(checked)} triples have no condition; their sentences were "
                "compared without one.",
                BlankConditionWarning,
                stacklevel=2,
            )
        asked = [*checked, *((b, a, c) for a, b, c in checked)] if order == "both" else checked
        stats = TokenizationStats(unit="triple") if truncation is None else truncation
        found = self._graded(asked, progress=progress, truncation=stats)
        found = found.clip(*self.scale) if within_scale else found
        if truncation is None:
            stats.report()
        return found if order == "given" else found.reshape(2, len(checked)).mean(axis=0)

    def score_items(
        self, items: Sequence[tuple[str, ...]], *, truncation: TokenizationStats | None = None
    ) -> Matrix:
        """Scores of triples, also beyond the scale if the model goes there."""
        triples = [(a, b, condition) for a, b, condition in items]
        if truncation is None:
            return self.score(triples, within_scale=False)
        return self._graded(triples, progress=None, truncation=truncation)

    def _graded(
        self, triples: list[TextTriple], *, progress: bool | None, truncation: TokenizationStats
    ) -> Matrix:
        """Every distinct triple is graded once; of long texts, every pair of passages."""
        distinct, rows = unique(triples)
        grade = partial(self.grade, progress=progress, truncation=truncation)
        alignment = self.align(distinct)
        if alignment is None:
            return grade(distinct)[rows]
        truncation.cut += alignment.cut
        return alignment.score(grade)[rows]

    def _scores(self, query: str, texts: Sequence[str], condition: str | None) -> Matrix:
        return self.score([(query, text, condition or "") for text in texts])


def digest(description: Any) -> str:
    """The sha256 of plain values, whatever the order of their keys."""
    text = json.dumps(description, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def _texts(side: Any) -> list[str] | None:
    """Texts that were given as one or many; None for anything else."""
    if isinstance(side, str):
        return [side]
    whole = isinstance(side, list | tuple) and all(isinstance(text, str) for text in side)
    return list(side) if whole and side else None


def _cosine_pairs(pairs: list[TextPair], first: Matrix, second: Matrix) -> Matrix:
    return cosine_rows(first, second)


def unit_rows(rows: Matrix) -> Matrix:
    """Rows scaled to length 1; a row shorter than 1e-8 is divided by 1e-8."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.maximum(lengths, 1e-8), dtype=np.float32)


def cosine_rows(first: Matrix, second: Matrix) -> Matrix:
    """Cosines row by row, without what rounding puts beyond -1 and 1."""
    products = unit_rows(first) * unit_rows(second)
    return np.asarray(products.sum(axis=1).clip(-1, 1), dtype=np.float32)
