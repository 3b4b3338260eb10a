"""A pipe for spaCy: ``doc.similarity`` and ``span.similarity`` by a model of tertium.

``nlp.add_pipe("tertium", config={"model": "sts"})`` after ``import tertium.integrations.spacy``.
"""

from typing import Any

from spacy.language import Language
from spacy.tokens import Doc

from tertium.integrations.lazy_model import LazyEmbedder

__all__ = ["SimilarityPipe"]


@Language.factory(  # type: ignore[untyped-decorator]
    "tertium", default_config={"model": "default", "engine": "default"}
)
def _make(nlp: Language, name: str, model: str, engine: str) -> "SimilarityPipe":
    return SimilarityPipe(model, engine=engine)


class SimilarityPipe:
    """Sets the hooks of a document: ``similarity`` is the model's score, ``vector`` its vector.

    Args:
        model: anything that :func:`tertium.load` takes; a model that grades pairs gives its grades.
        engine: what runs it.
    """

    def __init__(self, model: str = "default", *, engine: str = "default") -> None:
        self.embedder = LazyEmbedder(model, engine=engine)

    def __call__(self, doc: Doc) -> Doc:
        """Set the hooks."""
        for hooks in (doc.user_hooks, doc.user_span_hooks):
            hooks["similarity"] = self.similarity
            hooks["vector"] = self.vector
            hooks["has_vector"] = lambda _: True
        return doc

    def similarity(self, one: Any, other: Any) -> float:
        """The score of two documents or spans, on the model's scale."""
        return float(self.embedder.model.score([(one.text, other.text)])[0])

    def vector(self, one: Any) -> Any:
        """The vector of a document or span."""
        return self.embedder.encode([one.text])[0]
