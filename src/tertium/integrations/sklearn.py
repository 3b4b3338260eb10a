"""A scikit-learn transformer: texts to vectors, as the first step of a pipeline."""

from collections.abc import Iterable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tertium.errors import require
from tertium.integrations.lazy_model import LazyEmbedder

require("train", purpose="TertiumVectorizer", packages=["sklearn"])

from sklearn.base import BaseEstimator, TransformerMixin  # noqa: E402

__all__ = ["TertiumVectorizer"]


class TertiumVectorizer(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Texts to vectors by a frozen model; nothing is fitted.

    It can be cloned and searched over like any estimator. A pickle holds the name of the model,
    not its weights: they are loaded again where it is used.

    Args:
        model: anything that :func:`tertium.load` takes.
        engine: what runs it.
        normalize: scale every vector to length 1.

    >>> TertiumVectorizer("default").fit_transform(["A cat sleeps."]).shape  # doctest: +SKIP
    (1, 384)
    """

    def __init__(
        self, model: str = "default", *, engine: str = "default", normalize: bool = True
    ) -> None:
        self.model = model
        self.engine = engine
        self.normalize = normalize

    def fit(self, X: Iterable[str], y: Any = None) -> Self:
        """Check that the model can be loaded; the texts are not looked at."""
        self.embedder_ = LazyEmbedder(self.model, engine=self.engine)
        self.n_features_out_ = self.embedder_.model.dimension
        return self

    def transform(self, X: Iterable[str]) -> NDArray[np.float32]:
        """One row for each text."""
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(self)
        return self.embedder_.encode([str(text) for text in X], normalize=self.normalize)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Names of the columns: ``tertium0``, ``tertium1`` and so on."""
        names = [f"tertium{column}" for column in range(self.n_features_out_)]
        return np.array(names, dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.two_d_array = False
        tags.requires_fit = True
        return tags
