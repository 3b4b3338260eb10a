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


def _several(value: Any) -> Any:
    """One text is a list of one."""
    if isinstance(value, str):
        return [value]
    if not isinstance(value, list):
        raise PydanticCustomError("texts_type", "Input should be a text or a list of texts")
    return value


Text = Annotated[str, Field(strict=True)]
Count = Annotated[int, BeforeValidator(_whole), Field(ge=1, strict=True)]
Pair = Annotated[list[Text], Field(min_length=2, max_length=2)]
Triple = Annotated[list[Text], Field(min_length=3, max_length=3)]
Scale = Annotated[list[float], Field(min_length=2, max_length=2)]
AttentionRows = list[list[float | None]]
Some = Field(min_length=1)
Several = Annotated[list[Text], Some]
Texts = Annotated[Several, BeforeValidator(_several, json_schema_input_type=Text | Several)]


class _Request(BaseModel):
    """Fields that it does not know are mistakes."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: Text | None = Field(None, description="The name that /v1/models tells, or nothing.")


class EmbeddingsRequest(_Request):
    """As OpenAI's; what else its clients send is left out."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    input: Texts = Field(description="One text or several.")
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: Count | None = Field(None, description="Keep the first so many.", lt=2**31)
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

    query: Texts
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


class ExplainedWord(BaseModel):
    """A word, and what it does to the score."""

    word: str
    start: int = Field(description="Its first character in the text.")
    end: int = Field(description="The first character after it.")
    occlusion: float = Field(description="By how much the score falls without the word.")
    gradients: None = Field(description="The server computes none.")


class ExplainedText(BaseModel):
    """A text and its words."""

    text: str
    words: list[ExplainedWord]


class RemovedWord(BaseModel):
    """A word that is left out."""

    text: Literal[0, 1]
    place: int = Field(description="Its place among the words of the text.")
    word: str


class Change(BaseModel):
    """The fewest words found without which the score is another one, at most two."""

    by: float = Field(description="How far the score was to move.")
    reached: bool = Field(description="If not, these words move it farthest.")
    score: float = Field(description="Without these words.")
    removed: list[RemovedWord]


class Attention(BaseModel):
    """Attention between words; a row is the word that looks, null what a model does not relate."""

    words: list[str] = Field(description="Of both texts.")
    split: int = Field(description="How many of them belong to the first.")
    condition: str
    marked: list[int] = Field(description="Words that exchange most with the condition.")
    relevance: list[float] = Field(description="What each word exchanges with it.")
    without_condition: AttentionRows
    attention: AttentionRows = Field(description="With the condition.")
    reallocated: AttentionRows | None = Field(description="If the model's head reallocates it.")


class ExplainAnswer(BaseModel):
    """A score, word by word; what ``tertium explain --json`` prints."""

    model: str
    condition: str | None
    score: float = Field(description="Within the scale.")
    unclipped: float = Field(description="The same where the model goes beyond its scale.")
    scale: Scale
    method: Literal["occlusion"]
    texts: Annotated[list[ExplainedText], Field(min_length=2, max_length=2)]
    smallest_change: Change
    gradients: None = Field(description="The server computes none.")
    alignment: list[list[float]] | None = Field(
        description="Cosines of words, a row for each of the first text; null without torch."
    )
    attention: Attention | None = Field(description="Under a condition, if the model shows it.")
    notes: list[str] = Field(description="Why something is missing.")


class ServedModel(BaseModel):
    """A model, and which paths it answers."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    answers: list[str]
    state: Literal["loaded", "loading", "unloaded", "failed"] = Field(
        description="Whether any worker has it in memory; a failed one is tried again later."
    )
    scale: Scale | None = Field(description="Null until it has been loaded once.")
    dimension: int | None = Field(description="Null without vectors, and until it has been loaded.")
    texts: int | None = Field(description="How many there are to search.")


class ModelsAnswer(BaseModel):
    """What is served."""

    object: Literal["list"]
    data: list[ServedModel]


class Health(BaseModel):
    """How the server is."""

    status: Literal["ok", "loading", "stopping"]
    search: Literal["ok", "unavailable"] | None = Field(
        None, description="Whether the index can be searched; missing without one."
    )
    failed: list[str] | None = Field(
        None, description="Models that cannot be loaded at the moment; missing without one."
    )


class ErrorDetail(BaseModel):
    """What went wrong."""

    message: str
    type: str
    code: str
    param: str | None = None


class ErrorAnswer(BaseModel):
    """The one shape of errors."""

    error: ErrorDetail
