"""Schemas of requests and answers."""

from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    RootModel,
    field_validator,
    model_validator,
)
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
    "RerankAnswer",
    "RerankRequest",
    "ScoresAnswer",
    "SearchAnswer",
    "SearchRequest",
    "SimilarityRequest",
]


def _whole(value: Any) -> Any:
    """Accept 3.0 as 3, which JSON does not distinguish."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _several(value: Any) -> Any:
    """Wrap a single text in a list."""
    if isinstance(value, str):
        return [value]
    if not isinstance(value, list):
        raise PydanticCustomError("texts_type", "Input should be a text or a list of texts")
    return value


def _inputs(value: Any) -> Any:
    """Wrap a single text, or its token ids, in a list."""
    if isinstance(value, str) or _is_tokens(value):
        return [value]
    if not isinstance(value, list):
        raise PydanticCustomError(
            "texts_type", "Input should be a text or a list of texts, or their token ids"
        )
    return value


def _input(value: Any) -> Any:
    if isinstance(value, str) or _is_tokens(value):
        return value
    raise PydanticCustomError("texts_type", "Input should be a text, or a list of token ids")


def _is_tokens(value: Any) -> bool:
    ids = value if isinstance(value, list) else []
    return bool(ids) and all(type(each) is int and 0 <= each < 2**31 for each in ids)


Text = Annotated[str, Field(strict=True)]
Count = Annotated[int, BeforeValidator(_whole), Field(ge=1, strict=True)]
Pair = Annotated[list[Text], Field(min_length=2, max_length=2)]
Triple = Annotated[list[Text], Field(min_length=3, max_length=3)]
Scale = Annotated[list[float], Field(min_length=2, max_length=2)]
AttentionRows = list[list[float | None]]
Some = Field(min_length=1)
Several = Annotated[list[Text], Some]
Tokens = Annotated[list[Annotated[int, Field(ge=0, lt=2**31)]], Some]
Input = Annotated[Any, BeforeValidator(_input, json_schema_input_type=Text | Tokens)]
Inputs = Annotated[
    list[Input],
    Some,
    BeforeValidator(_inputs, json_schema_input_type=Text | Several | Tokens | list[Tokens]),
]
Texts = Annotated[Several, BeforeValidator(_several, json_schema_input_type=Text | Several)]


class _Request(BaseModel):
    """Unknown fields are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: Text | None = Field(None, description="A name from /v1/models; optional.")


class EmbeddingsRequest(_Request):
    """Like OpenAI's; other fields that its clients send are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    input: Inputs = Field(
        description="One or more texts, or their token ids by this model's tokenizer."
    )
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: Count | None = Field(None, description="Keep only the first N.", lt=2**31)
    user: Text | None = Field(None, description="Not used.")

    @field_validator("input")
    @classmethod
    def _alike(cls, value: list[Any]) -> list[Any]:
        if len({type(each) for each in value}) > 1:
            raise PydanticCustomError("texts_type", "Send either texts or token ids, not both")
        return value


class SimilarityRequest(_Request):
    """Pairs of texts to compare."""

    pairs: Annotated[list[Pair], Some]


class ConditionalRequest(_Request):
    """Triples of two texts and the condition to compare them under."""

    triples: Annotated[list[Triple], Some]


class ExplainRequest(_Request):
    """Two texts whose score to explain, optionally under a condition."""

    a: Text
    b: Text
    on: Text | None = Field(None, description="The condition, for a model that takes conditions.")


class SearchRequest(_Request):
    """Queries for the index."""

    query: Texts
    top_k: Count = Field(10, description="Number of hits per query.")
    threshold: float | None = Field(None, allow_inf_nan=False, description="Minimum cosine.")
    where: Text | None = Field(
        None, description="A filter on columns, such as: year >= 2020 AND lang = 'en'"
    )
    hybrid: bool = Field(default=False, description="Rank by meaning and keywords together.")
    rerank: Text | None = Field(
        None, description="A served model that reorders the first hits by its own scores."
    )
    on: Text | None = Field(
        None, description="Reorder the first hits under this condition, by a conditional model."
    )
    rerank_top: Count = Field(50, description="Number of hits to reorder.")


class RerankDocument(BaseModel):
    """A text, as some clients send it."""

    text: Text


class RerankRequest(_Request):
    """Texts to rank, in the format of Cohere (documents) or TEI (texts)."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    query: Text
    documents: Annotated[list[Text | RerankDocument], Some] | None = Field(
        None, description="The texts, as Cohere names them."
    )
    texts: Several | None = Field(None, description="The texts, as TEI names them.")
    top_n: Count | None = Field(None, description="Return only the best N.")
    return_documents: bool = Field(default=False, description="Include the texts (Cohere).")
    return_text: bool = Field(default=False, description="Include the texts (TEI).")
    raw_scores: bool = Field(
        default=False, description="Scores on the model's own scale, not 0 to 1."
    )
    on: Text | None = Field(None, description="The condition to compare them under.")

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.documents is None) == (self.texts is None):
            raise PydanticCustomError("rerank", "Send either documents or texts")
        return self


class Usage(BaseModel):
    """Number of tokens processed."""

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
    truncated: int = Field(description="Number of texts that exceed the model's maximum length.")


class DecisionAbout(BaseModel):
    """A model's fitted threshold, and what it was fitted on."""

    name: str = Field(description="What is decided, such as duplicate.")
    threshold: float | None
    goal: Literal["precision", "recall", "f1"] | None
    wanted: float | None
    confidence: float | None
    pairs: int = Field(description="Number of pairs it was fitted on.")
    file: str


class Verdict(BaseModel):
    """The decision on a pair, by threshold and calibration."""

    decision: Literal["yes", "no"] | None
    probability: float | None = Field(description="Probability that the answer is yes.")
    grade: float | None = Field(description="Grade on the scale of the labels it was fitted on.")


class ScoresAnswer(BaseModel):
    """Scores in the order of the pairs or triples, and the ends of their scale."""

    scores: list[float]
    scale: Scale
    decisions: list[Verdict] | None = Field(description="Null for a model without a threshold.")
    decision: DecisionAbout | None
    model: str
    usage: Usage
    truncated: int


class Hit(Verdict):
    """A text that was found in the index, with a verdict by its cosine."""

    id: str
    text: str
    score: float = Field(
        description="The cosine, in a hybrid search the sum of reciprocal ranks, or the reranking "
        "model's score."
    )
    cosine: float | None = Field(description="Null for a text that was found only by its words.")
    columns: dict[str, Any] = Field(description="Its further columns.")
    passage: str | None = Field(description="The part of a long text nearest to the query.")


class SearchAnswer(BaseModel):
    """Hits for each query, nearest first."""

    results: list[list[Hit]]
    decision: DecisionAbout | None = Field(
        description="Where yes and no come from; null for a model without threshold."
    )
    model: str
    usage: Usage
    truncated: int


class Ranked(BaseModel):
    """A document's position in the request, and its score."""

    index: int
    relevance_score: float = Field(description="From 0 to 1, unless raw_scores is set.")
    document: RerankDocument | None = None


class RankedText(BaseModel):
    """A text's position in the request, and its score, in TEI's format."""

    index: int
    score: float
    text: str | None = None


class RerankResults(BaseModel):
    """Documents in Cohere's format, best first."""

    id: str
    results: list[Ranked]
    model: str
    usage: Usage
    truncated: int


class RerankAnswer(RootModel[RerankResults | list[RankedText]]):
    """An object for documents (Cohere), a list for texts (TEI)."""


class ExplainedWord(BaseModel):
    """A word and its contribution to the score."""

    word: str
    start: int = Field(description="Offset of its first character in the text.")
    end: int = Field(description="Offset just after its last character.")
    occlusion: float = Field(description="By how much the score falls without the word.")
    gradients: None = Field(description="Always null: the server does not compute gradients.")


class ExplainedText(BaseModel):
    """A text and its words."""

    text: str
    words: list[ExplainedWord]


class RemovedWord(BaseModel):
    """A removed word."""

    text: Literal[0, 1]
    place: int = Field(description="Its position among the words of the text.")
    word: str


class Change(BaseModel):
    """The fewest words, at most two, whose removal changes the score by a given amount."""

    by: float = Field(description="The required change in score.")
    reached: bool = Field(description="If false, these are the words that change it most.")
    score: float = Field(description="Score without these words.")
    removed: list[RemovedWord]


class Attention(BaseModel):
    """Attention between words; rows are queries, and null where a model does not relate words."""

    words: list[str] = Field(description="Words of both texts.")
    split: int = Field(description="How many of them belong to the first text.")
    condition: str
    marked: list[int] = Field(description="Words that exchange most attention with the condition.")
    relevance: list[float] = Field(description="Attention each word exchanges with the condition.")
    without_condition: AttentionRows
    attention: AttentionRows = Field(description="With the condition.")
    reallocated: AttentionRows | None = Field(
        description="After reallocation, if the model's head does that."
    )


class ExplainAnswer(BaseModel):
    """A score, word by word, in the format of ``tertium explain --json``."""

    model: str
    condition: str | None
    score: float = Field(description="The score, clipped to the scale.")
    unclipped: float = Field(description="The score before clipping.")
    scale: Scale
    method: Literal["occlusion"]
    texts: Annotated[list[ExplainedText], Field(min_length=2, max_length=2)]
    smallest_change: Change
    gradients: None = Field(description="Always null: the server does not compute gradients.")
    alignment: list[list[float]] | None = Field(
        description="Cosines of words, one row per word of the first text, if available."
    )
    attention: Attention | None = Field(description="Only under a condition, if available.")
    notes: list[str] = Field(description="Why something is missing.")


class ServedModel(BaseModel):
    """A model and its endpoints."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    answers: list[str]
    state: Literal["loaded", "loading", "unloaded", "failed"] = Field(
        description="Whether any worker has it in memory; a failed one is retried later."
    )
    scale: Scale | None = Field(description="Null until it has been loaded once.")
    dimension: int | None = Field(description="Null without vectors, or until it has been loaded.")
    texts: int | None = Field(description="Number of texts in the index.")
    decision: DecisionAbout | None = Field(description="The threshold of a fitted model.")
    columns: list[str] | None = Field(description="Columns that searches can filter by.")


class ModelsAnswer(BaseModel):
    """The served models and the index."""

    object: Literal["list"]
    data: list[ServedModel]
    version: str = Field(description="Version of tertium.")


class Health(BaseModel):
    """The state of the server."""

    status: Literal["ok", "loading", "stopping"]
    search: Literal["ok", "unavailable"] | None = Field(
        None, description="Whether the index can be searched; absent without one."
    )
    failed: list[str] | None = Field(
        None, description="Models that cannot be loaded at the moment; absent if there are none."
    )


class ErrorDetail(BaseModel):
    """An error."""

    message: str
    type: str
    code: str
    param: str | None = None


class ErrorAnswer(BaseModel):
    """The common shape of errors."""

    error: ErrorDetail
