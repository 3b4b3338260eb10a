"""What requests must hold, and what answers do."""

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
    """JSON does not tell 3 from 3.0."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _several(value: Any) -> Any:
    """One text is a list of one."""
    if isinstance(value, str):
        return [value]
    if not isinstance(value, list):
        raise PydanticCustomError("texts_type", "Input should be a text or a list of texts")
    return value


def _inputs(value: Any) -> Any:
    """One text, or the tokens of one, are a list of one."""
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
    """Fields that it does not know are mistakes."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: Text | None = Field(None, description="The name that /v1/models tells, or nothing.")


class EmbeddingsRequest(_Request):
    """As OpenAI's; what else its clients send is left out."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    input: Inputs = Field(
        description="One text or several, or their token ids as this model's tokenizer gives them."
    )
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: Count | None = Field(None, description="Keep the first so many.", lt=2**31)
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
    where: Text | None = Field(
        None, description="A filter of columns, such as: year >= 2020 AND lang = 'en'"
    )
    hybrid: bool = Field(default=False, description="Rank by meaning and by words together.")
    rerank: Text | None = Field(
        None, description="A served model that puts the first hits in order by its own scores."
    )
    on: Text | None = Field(
        None, description="Rank the first hits in this respect, by the model that takes conditions."
    )
    rerank_top: Count = Field(50, description="How many hits these models are given.")


class RerankDocument(BaseModel):
    """A text, as some clients send it."""

    text: Text


class RerankRequest(_Request):
    """Texts to put in order, as clients of Cohere (documents) or of TEI (texts) send them."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    query: Text
    documents: Annotated[list[Text | RerankDocument], Some] | None = Field(
        None, description="As Cohere's clients call them."
    )
    texts: Several | None = Field(None, description="As TEI's clients call them.")
    top_n: Count | None = Field(None, description="Answer only the best so many.")
    return_documents: bool = Field(default=False, description="Answer with the texts (Cohere).")
    return_text: bool = Field(default=False, description="Answer with the texts (TEI).")
    raw_scores: bool = Field(
        default=False, description="Scores on the model's own scale, not 0 to 1."
    )
    on: Text | None = Field(None, description="The respect in which they are compared.")

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.documents is None) == (self.texts is None):
            raise PydanticCustomError("rerank", "Send documents, or texts")
        return self


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


class DecisionAbout(BaseModel):
    """The threshold that a model was fitted with, and where it comes from."""

    name: str = Field(description="What is decided, such as duplicate.")
    threshold: float | None
    goal: Literal["precision", "recall", "f1"] | None
    wanted: float | None
    confidence: float | None
    pairs: int = Field(description="How many it was fitted on.")
    file: str


class Verdict(BaseModel):
    """What the threshold and the calibration say of a pair."""

    decision: Literal["yes", "no"] | None
    probability: float | None = Field(description="That it is one to accept.")
    grade: float | None = Field(description="On the scale of the labels it was fitted on.")


class ScoresAnswer(BaseModel):
    """Scores in the order of the pairs or triples, and the ends of their scale."""

    scores: list[float]
    scale: Scale
    decisions: list[Verdict] | None = Field(description="Null for a model without threshold.")
    decision: DecisionAbout | None
    model: str
    usage: Usage
    truncated: int


class Hit(Verdict):
    """A text of the index that was found; a verdict is by its cosine."""

    id: str
    text: str
    score: float = Field(
        description="The cosine, in a hybrid search the sum of reciprocal ranks, or the score of "
        "the model that reranks."
    )
    cosine: float | None = Field(description="Null for a text that was found only by its words.")
    columns: dict[str, Any] = Field(description="Its further columns.")
    passage: str | None = Field(description="Of a long text, what is nearest to the query.")


class SearchAnswer(BaseModel):
    """What was found for each query, the nearest first."""

    results: list[list[Hit]]
    decision: DecisionAbout | None = Field(
        description="Where yes and no come from; null for a model without threshold."
    )
    model: str
    usage: Usage
    truncated: int


class Ranked(BaseModel):
    """A document's place in the request, and its score."""

    index: int
    relevance_score: float = Field(description="From 0 to 1, unless raw scores are wanted.")
    document: RerankDocument | None = None


class RankedText(BaseModel):
    """The same for a client of TEI."""

    index: int
    score: float
    text: str | None = None


class RerankResults(BaseModel):
    """The best first."""

    id: str
    results: list[Ranked]
    model: str
    usage: Usage
    truncated: int


class RerankAnswer(RootModel[RerankResults | list[RankedText]]):
    """Documents are answered by an object, texts by a list."""


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
        description="Cosines of words, a row for each of the first text, if the model shows them."
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
    decision: DecisionAbout | None = Field(description="Of a model that was fitted on pairs.")
    columns: list[str] | None = Field(description="What searches can be filtered by.")


class ModelsAnswer(BaseModel):
    """What is served."""

    object: Literal["list"]
    data: list[ServedModel]
    version: str = Field(description="Version of tertium.")


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
