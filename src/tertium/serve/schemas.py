"""What requests must hold, and what answers do."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator
from pydantic_core import PydanticCustomError

__all__ = [
    "ConditionalRequest",
    "EmbeddingsAnswer",
    "EmbeddingsRequest",
    "ErrorAnswer",
    "ExplainAnswer",
    "ExplainRequest",
    "Health",
    "ModelsAnswer",
    "ScoresAnswer",
    "SearchAnswer",
    "SearchRequest",
    "SimilarityRequest",
]


def _whole(value: Any) -> Any:
    """JSON does not tell 3 from 3.0."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Text = Annotated[str, Field(strict=True)]
Count = Annotated[int, BeforeValidator(_whole), Field(ge=1, strict=True)]
Pair = Annotated[list[Text], Field(min_length=2, max_length=2)]
Triple = Annotated[list[Text], Field(min_length=3, max_length=3)]
Scale = Annotated[list[float], Field(min_length=2, max_length=2)]
Some = Field(min_length=1)


class _Request(BaseModel):
    """Fields that it does not know are mistakes."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: Text | None = Field(None, description="The name that /v1/models tells, or nothing.")


class EmbeddingsRequest(_Request):
    """As OpenAI's; what else its clients send is left out."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    input: Text | Annotated[list[Text], Some] = Field(description="One text or several.")
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: Count | None = Field(None, description="Keep the first so many.")
    user: Text | None = Field(None, description="Not used.")

    @field_validator("input", mode="before")
    @classmethod
    def _texts(cls, value: Any) -> Any:
        first = value[0] if isinstance(value, list) and value else None
        if isinstance(first, int | list) and not isinstance(first, bool):
            raise PydanticCustomError(
                "token_array",
                "Arrays of tokens are not accepted, since every model has its own: send the text",
            )
        return value


class SimilarityRequest(_Request):
    """Pairs of texts to compare."""

    pairs: Annotated[list[Pair], Some]


class ConditionalRequest(_Request):
    """Two texts and the respect in which to compare them, each."""

    triples: Annotated[list[Triple], Some]


class ExplainRequest(_Request):
    """Two texts whose score is to be explained, perhaps in some respect."""

    a: Text
    b: Text
    on: Text | None = Field(None, description="The condition, for the model that takes them.")


class SearchRequest(_Request):
    """Texts to look for in the index."""

    query: Text | Annotated[list[Text], Some]
    k: Count = Field(10, description="How many hits for each.")
    threshold: float | None = Field(None, allow_inf_nan=False, description="The smallest cosine.")


class Usage(BaseModel):
    """Tokens that were read."""

    prompt_tokens: int
    total_tokens: int


class Embedding(BaseModel):
    """The vector of one text: numbers, or little-endian float32 in base64."""

    object: Literal["embedding"]
    index: int
    embedding: list[float] | str


class EmbeddingsAnswer(BaseModel):
    """Vectors of length 1, in the order of the texts."""

    object: Literal["list"]
    data: list[Embedding]
    model: str
    usage: Usage
    truncated: int = Field(description="Texts that were longer than the model reads.")


class ScoresAnswer(BaseModel):
    """Scores in the order of the pairs or triples, and the ends of their scale."""

    scores: list[float]
    scale: Scale
    model: str
    usage: Usage
    truncated: int


class Hit(BaseModel):
    """A text of the index and its cosine with the query."""

    id: str
    text: str
    score: float


class SearchAnswer(BaseModel):
    """What was found for each query, the nearest first."""

    results: list[list[Hit]]
    model: str
    usage: Usage
    truncated: int


class ExplainAnswer(BaseModel):
    """A score, word by word; what ``tertium explain --json`` prints."""

    model_config = ConfigDict(extra="allow")

    score: float
    scale: Scale
    model: str


class ServedModel(BaseModel):
    """A model, and which paths it answers."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    answers: list[str]
    scale: Scale
    dimension: int | None
    texts: int | None = Field(description="How many there are to search.")


class ModelsAnswer(BaseModel):
    """What is served."""

    object: Literal["list"]
    data: list[ServedModel]


class Health(BaseModel):
    """How the server is."""

    status: Literal["ok", "loading", "stopping"]


class ErrorDetail(BaseModel):
    """What went wrong."""

    message: str
    type: str
    code: str
    param: str | None = None


class ErrorAnswer(BaseModel):
    """The one shape of errors."""

    error: ErrorDetail
