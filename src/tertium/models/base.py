"""The contract: what every model can do, whatever runs it."""

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
_MOST_PASSAGES = 64  # per text where every pair of passages is read together

# Tokens per batch, padding included. On a CPU small batches stay in its caches
# (benchmarks/encode.py); an accelerator needs large ones.
_PROCESSOR_BUDGET = 1024
_ACCELERATOR_BUDGET = 32_768


class EncodeOptions(TypedDict, total=False):
    """The options of :meth:`Encoder.encode`."""

    normalize: bool
    prompt: str | None
    token_budget: int | None
    progress: bool | None
    truncation: TokenizationStats | None
    # The same in the spelling of sentence-transformers.
    batch_size: int | None
    normalize_embeddings: bool
    show_progress_bar: bool | None
    convert_to_numpy: bool


class Model(ABC):
    """What :func:`tertium.load` returns: it scores pairs or triples of texts on its own scale.

    Attributes:
        takes_conditions: whether it compares triples (two texts and a condition), not pairs.
        reads_together: whether it scores a pair by reading both texts, so vectors are not enough.
        decision: thresholds and calibrations that ``tertium fit`` found for it; else None.
        decision_around: the decision of the model whose vectors this one computes, if any.
        name_around: the name of that model.
    """

    takes_conditions: ClassVar[bool] = False
    reads_together: ClassVar[bool] = False
    decision: Decision | None = None
    decision_around: Decision | None = None
    name_around: str | None = None

    @property
    def cosine_decision(self) -> Decision | None:
        """The decision for its cosines: its own, or that of the model around it."""
        return self.decision or self.decision_around

    @property
    @abstractmethod
    def name(self) -> str:
        """The model's name in results."""

    @property
    @abstractmethod
    def kind(self) -> Kind:
        """The kind of model, as in ``tertium.json``."""

    @property
    @abstractmethod
    def scale(self) -> tuple[float, float]:
        """Lowest and highest score."""

    @property
    def members(self) -> tuple[Member, ...]:
        """Encoders or conditional scorers inside, each with its weight.

        An encoder or conditional scorer is its own only member, a mixture has several, and a
        model made of neither has none.
        """
        return ()

    @property
    def pooling(self) -> Pooling | None:
        """How token vectors become sentence vectors, if all members do it the same way."""
        poolings = {member.model.pooling for member in self.members}
        return poolings.pop() if len(poolings) == 1 else None

    @property
    def training_data(self) -> tuple[TrainingData, ...]:
        """The data that any of the members was trained on."""
        return tuple(dict.fromkeys(d for each in self.members for d in each.model.training_data))

    @property
    def readers(self) -> tuple[TextEncoder, ...]:
        """All encoders inside, whatever runs them."""
        return tuple(reader for member in self.members for reader in member.model.readers)

    @property
    def encoders(self) -> tuple[Encoder, ...]:
        """All encoders inside, as torch runs them; loaded now if an engine ran them so far."""
        return tuple(member.encoder for member in self.members)

    @property
    def encoder(self) -> Encoder:
        """The only encoder inside, as torch runs it, for training and inspection."""
        encoders = self.readers
        if len(encoders) == 1:
            return encoders[0].encoder
        if not encoders:
            raise TertiumError(f"{self.name} is not made of encoders, so there is none to inspect.")
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
        """The parts that an engine can run instead of torch, each as one graph."""
        return tuple(part for member in self.members for part in member.model.parts)

    @property
    def vector_model(self) -> Model:
        """The model that computes the vectors: this one, or one inside it."""
        return self

    @property
    def fingerprint(self) -> str:
        """The hash of everything that its scores depend on, weights included, but not its name.

        A model that is not made of encoders is identified by its name unless it overrides this.
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
            items: any number of them.
            options: ``progress`` (False for no progress on standard error), ``truncation`` (counts
                cut texts instead of warning), and others that depend on the kind of model.
        """

    def decide(self, items: Iterable[Any], **options: Any) -> list[Verdict]:
        """Yes or no, probability and grade of pairs or triples, by the fitted decision.

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
        """Scores of pairs or triples, not clipped to the scale.

        Args:
            items: pairs, or triples for a model that takes conditions.
            truncation: count cut texts here instead of warning.
        """

    def align(
        self, items: Sequence[tuple[str, ...]], *, prompt: str | None = None
    ) -> Alignment | None:
        """Pairs or triples split into passages if texts are longer than the model reads; else None.

        Each passage then scores what it scores with the best passage of the other text, and the
        score is the mean over the passages of both texts, with equal weight for each text. A model
        that reads both texts together reads at most 64 passages of each.

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
        """The passages of first and second texts in turn; none for texts that are read whole."""
        return cut_long(self, [text for item in items for text in item[:2]], prompt=prompt)

    @abstractmethod
    def save(self, folder: Path | str) -> None:
        """Save the whole model to a folder that :func:`tertium.load` reads."""

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
        """Say which words led to the score of two texts.

        Every word is left out in turn and the rest is scored again; this is exact and works with
        any model. If torch runs the model, the explanation also shows which words of both texts
        belong together and, under a condition, where attention goes. While integrated gradients
        are computed, the model's embedding table is hooked: no other thread may use the model.

        Args:
            a: the first text.
            b: the second text.
            condition: the condition to compare them under, for a model that takes conditions.
            method: ``occlusion``, or ``gradients`` for integrated gradients as well, which need
                captum and a model run by torch.
            steps: points of that integral (default: as many as needed for an error below 1 %).
            by: how far the smallest change must move the score (default: one point, or 0.2 if the
                score is a cosine).
            most: maximum number of words in the smallest change; 0 skips the search.

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
        """The texts sorted by their score with ``query``, best first.

        Args:
            query: compared with each text.
            texts: the texts to rank; a hit's ``id`` is the position of its text among them.
            condition: the condition to compare them under, for a model that takes conditions.
            top_k: how many to return (default: all).
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
        """Save the model in a repository of the Hugging Face hub and return the commit's URL.

        Args:
            repo_id: ``organisation/name``; created if it does not exist.
            private: whether a new repository is private (default: the organisation's setting).
            revision: branch to commit to (default: the main one).
            commit_message: message of the commit.
            token: access token of the hub (default: that of ``hf auth login``).
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
        """The manifest of a saved folder."""
        return Manifest(
            kind=self.kind,
            pooling=self.pooling,
            scale=self.scale,
            training_data=self.training_data,
            details=details,
        )

    def _decided(self) -> dict[str, Any]:
        """The decision as an entry of a manifest's details."""
        return {} if self.decision is None else {DECISION: self.decision.model_dump(mode="json")}

    def _scores(self, query: str, texts: Sequence[str], condition: str | None) -> Matrix:
        """Scores of ``query`` with each text."""
        self.check_condition(condition)
        return self.score([(query, text) for text in texts])


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
        """Batches to run at once: as many as the engine allows, else 1."""
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
        """The hash of everything that its graph depends on: weights, configuration and pooling."""

    def _look(self, inputs: Mapping[str, NDArray[Any]], *names: str) -> list[NDArray[Any]]:
        """Other outputs of the engine's graph than its result.

        Raises:
            TertiumError: the engine does not provide them.
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
        """Save as a member of a mixture; an adapter stays an adapter."""
        self.save(folder)


@dataclass(frozen=True)
class Member:
    """A model of a mixture and its weight."""

    model: Any  # an encoder, or a conditional scorer
    weight: float = 1.0

    @property
    def encoder(self) -> Encoder:
        """The member's encoder."""
        found: Encoder = self.model.encoder
        return found


class Embedder(Model):
    """A model that turns each text into a vector and compares vectors.

    A class of your own needs only ``name``, ``dimension`` and ``encode``.
    """

    @property
    def kind(self) -> Kind:
        """The kind of model, as in ``tertium.json``."""
        return Kind.ENCODER

    @property
    def scale(self) -> tuple[float, float]:
        """Lowest and highest score, by default those of the cosine."""
        return -1.0, 1.0

    @property
    @abstractmethod
    def dimension(self) -> int:
        """Width of an embedding."""

    @property
    def prompts(self) -> dict[str, str]:
        """Prompts that the model was trained with, by the use of a text (``query`` and so on)."""
        readers = self.readers
        return readers[0].prompts if len(readers) == 1 and readers[0] is not self else {}

    @abstractmethod
    def encode(self, texts: str | Sequence[str], **options: Any) -> Any:
        """One row per text, in input order; a single string gives a single vector."""

    def save(self, folder: Path | str) -> None:
        """Raises: not every embedder can be saved."""
        raise TertiumError(f"{self.name} cannot be saved: it is not a model of tertium.")

    def score(self, items: Iterable[TextPair], **options: Any) -> Matrix:
        """Score of each pair, within the scale, in input order; options of :meth:`encode`.

        Texts longer than the model reads are compared by passages: see :meth:`align`.
        """
        return self._graded(items, self._grade_pairs, **options)[0].clip(*self.scale)

    def cosine(self, pairs: Iterable[TextPair], **options: Any) -> Matrix:
        """Cosine of each pair's embeddings; options of :meth:`encode`."""
        return self._graded(pairs, _cosine_pairs, **options)[0]

    def score_and_cosine(self, pairs: Iterable[TextPair], **options: Any) -> tuple[Matrix, Matrix]:
        """The results of :meth:`score` and :meth:`cosine`, with every text encoded only once."""
        grades, cosines = self._graded(pairs, self._grade_pairs, _cosine_pairs, **options)
        return grades.clip(*self.scale), cosines

    def score_items(
        self, items: Sequence[tuple[str, ...]], *, truncation: TokenizationStats | None = None
    ) -> Matrix:
        """Scores of pairs, not clipped to the scale."""
        pairs = [(a, b) for a, b in items]
        options = {} if truncation is None else {"truncation": truncation}
        return self._graded(pairs, self._grade_pairs, **options)[0]

    def score_vectors(self, first: Matrix, second: Matrix) -> Matrix:
        """Scores from the vectors of two texts, row by row, within the scale."""
        return self.grade_vectors(first, second).clip(*self.scale)

    def grade_vectors(self, first: Matrix, second: Matrix) -> Matrix:
        """The same before clipping to the scale; by default the cosine."""
        return cosine_rows(first, second)

    def compare(self, first: Tensor, second: Tensor) -> Tensor:
        """The same as :meth:`grade_vectors`, in torch and with gradients."""
        from tertium.functional.similarity import cosine_pairs

        return cosine_pairs(first, second)

    def similarity(self, a: Any, b: Any = None) -> Matrix:
        """The score of every one of ``a`` with every one of ``b``, as a matrix.

        Args:
            a: texts, or their embeddings.
            b: the same (default: ``a``).
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
        """Each of some grades for pairs, from their vectors; for long texts from passages."""
        flat = check_texts(flat_pairs(items))
        pairs = list(zip(flat[0::2], flat[1::2], strict=True))
        alignment = self.align(pairs, prompt=options.get("prompt"))
        rows = np.asarray(self.encode(flat if alignment is None else alignment.parts, **options))
        if alignment is None:
            return [grade(pairs, rows[0::2], rows[1::2]) for grade in grades]
        return [alignment.score_vectors(rows, grade) for grade in grades]

    def _grade_pairs(self, pairs: list[TextPair], first: Matrix, second: Matrix) -> Matrix:
        return self.grade_vectors(first, second)


class TripleScorer(Model):
    """A model that compares sentences under a condition: ``score([(s1, s2, condition), …])``."""

    kind = Kind.CONDITIONAL
    takes_conditions: ClassVar[bool] = True

    @abstractmethod
    def grade(
        self, triples: list[TextTriple], *, progress: bool | None, truncation: TokenizationStats
    ) -> Matrix:
        """Scores of distinct triples, not clipped to the scale."""

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

        Each distinct triple is scored once, in batches of similar length. If a condition is blank,
        the sentences are compared without one, and one warning per call says so; an empty sentence
        is read as the model's special tokens only. Texts that exceed the model's length are
        compared by passages (:meth:`align`), each with the condition.

        Args:
            items: two sentences and a condition each.
            order: a cross-encoder may score differently if the sentences are swapped; ``both``
                gives the mean of both orders. Bi- and tri-encoders give the same score.
            within_scale: clip to the scale; unclipped scores of a half-trained model can still be
                ranked.
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
        """Scores of triples, not clipped to the scale."""
        triples = [(a, b, condition) for a, b, condition in items]
        if truncation is None:
            return self.score(triples, within_scale=False)
        return self._graded(triples, progress=None, truncation=truncation)

    def _graded(
        self, triples: list[TextTriple], *, progress: bool | None, truncation: TokenizationStats
    ) -> Matrix:
        """Grade every distinct triple once; long texts by every pair of passages."""
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
    """The sha256 of plain values, independent of the order of keys."""
    text = json.dumps(description, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def _texts(side: Any) -> list[str] | None:
    """One or several texts as a list; None for anything else."""
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
    """Cosines row by row, clipped to -1 and 1 against rounding."""
    products = unit_rows(first) * unit_rows(second)
    return np.asarray(products.sum(axis=1).clip(-1, 1), dtype=np.float32)
