"""An item as a model reads it: tokens, the words they are pieces of, and what makes a score."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import normalize, pad
from transformers import PreTrainedTokenizerBase

from tertium.errors import TertiumError
from tertium.explain.words import Place, Word, split_words, word_of
from tertium.models.base import Embedder, Model
from tertium.models.conditional import ConditionalScorer
from tertium.models.encoder import Encoder, evaluating
from tertium.models.tokens import valid_text

__all__ = ["States", "Table", "TokenizedItem", "tokenize_item", "word_alignment", "word_places"]

Places = tuple[Place | None, ...]  # of the words that the tokens of a sequence are pieces of


@dataclass(frozen=True)
class Table:
    """An embedding table, and the sequences of an item that are looked up in it."""

    module: nn.Module
    rows: slice


@dataclass(frozen=True)
class States:
    """Last hidden states of some of an item's sequences, as one encoder has them.

    Attributes:
        rows: which sequences the encoder reads.
        of: ids and mask to states.
        weight: of this encoder, where a model has several.
    """

    rows: slice
    of: Callable[[Tensor, Tensor], Tensor]
    weight: float = 1.0


@dataclass(frozen=True)
class TokenizedItem:
    """Sequences of one item, and what makes a score of them.

    Attributes:
        ids: token ids, padded to the same length.
        mask: 1 for real tokens.
        neutral: of each sequence, a token that carries no meaning.
        places: of every token's word; None for tokens of a condition, special ones and padding.
        tables: the embedding tables that ids are looked up in.
        forward: ids and mask of n repetitions of the item to n scores.
        states: of each encoder.
        weight: of this score, where a model averages several.
    """

    ids: Int[Tensor, "s t"]
    mask: Int[Tensor, "s t"]
    neutral: Int[Tensor, "s 1"]
    places: tuple[Places, ...]
    tables: tuple[Table, ...]
    forward: Callable[[Tensor, Tensor], Tensor]
    states: tuple[States, ...]
    weight: float = 1.0

    def without(self, text: int) -> Int[Tensor, "s t"]:
        """Ids where each token of a text's words is replaced by the neutral one."""
        own = [[place is not None and place[0] == text for place in row] for row in self.places]
        return torch.where(torch.tensor(own, device=self.ids.device), self.neutral, self.ids)


def tokenize_item(model: Model, item: Sequence[str]) -> list[TokenizedItem]:
    """A pair or triple as torch reads it; several where the score is the weighted mean of theirs.

    Raises ``TertiumError`` where torch does not run the model.
    """
    if not model.members:
        raise TertiumError(f"{model.name} shows nothing but scores.")
    if model.takes_conditions:
        return [_tokenize_triple(each.model, item, weight=each.weight) for each in model.members]
    return [_tokenize_pair(cast(Embedder, model), item)]


@torch.inference_mode()
def word_alignment(
    items: Sequence[TokenizedItem], words: Sequence[Sequence[Word]]
) -> Float[Tensor, "words others"]:
    """Cosines of the first text's words with the second's, each the mean of its pieces' states.

    With several encoders, the weighted mean of theirs; a word that was cut off has 0 with all.
    """
    aligned = torch.zeros(len(words[0]), len(words[1]))
    shares = [
        (item, states, item.weight * abs(states.weight) / sum(abs(s.weight) for s in item.states))
        for item in items
        for states in item.states
    ]
    total = sum(share for _, _, share in shares)
    for item, states, share in shares:
        found = states.of(item.ids[states.rows], item.mask[states.rows]).float().cpu()
        # The sum over a word's pieces has the direction of their mean.
        sums = [torch.zeros(len(own), found.shape[-1]) for own in words]
        for row, own in zip(item.places[states.rows], found, strict=True):
            for place, state in zip(row, own, strict=True):
                if place is not None:
                    text, word = place
                    sums[text][word] += state
        one, two = (normalize(part, dim=1) for part in sums)
        aligned += share / total * (one @ two.T)
    return aligned.clamp(-1, 1)


def word_places(tokenizer: PreTrainedTokenizerBase, text: str) -> list[int | None]:
    """The word of each token of a text, which is read without the space around it."""
    text = valid_text(text.strip())
    offsets = tokenizer(
        text,
        add_special_tokens=False,
        split_special_tokens=True,
        return_offsets_mapping=True,
        verbose=False,
    )["offset_mapping"]
    words = split_words(text)
    return [word_of(span, words) for span in offsets]


@dataclass(frozen=True)
class _Side:
    """Two texts as one encoder reads them."""

    encoder: Encoder
    weight: float
    ids: Int[Tensor, "s t"]
    mask: Int[Tensor, "s t"]
    places: tuple[Places, ...]

    def embed(self, rows: Tensor, masks: Tensor) -> Tensor:
        """Weighted embeddings of repetitions of these texts."""
        with evaluating(self.encoder.model):
            return self.weight * self.encoder.forward(self._inputs(rows, masks)).embedding

    def states(self, rows: Tensor, masks: Tensor) -> Tensor:
        """Last hidden states of repetitions of these texts."""
        with evaluating(self.encoder.model):
            return self.encoder.forward(self._inputs(rows, masks)).tokens

    def widened(self, width: int) -> "_Side":
        """With padding at the end, so that encoders with other tokens fit beside it."""
        more = width - self.ids.shape[1]
        return replace(
            self,
            ids=pad(self.ids, (0, more), value=int(self.encoder.tokenizer.pad_token_id or 0)),
            mask=pad(self.mask, (0, more)),
            places=tuple((*row, *[None] * more) for row in self.places),
        )

    def _inputs(self, rows: Tensor, masks: Tensor) -> dict[str, Tensor]:
        extra = self.encoder.prompt_features(self.encoder.prompt)
        return {"input_ids": rows, "attention_mask": masks, **extra}


def _tokenize_pair(model: Embedder, texts: Sequence[str]) -> TokenizedItem:
    """Two texts, each a sequence of its own, once for every encoder whose embeddings are added."""
    weights: dict[int, float] = {}  # an encoder that is there twice counts twice, and reads once
    for member in model.members:
        key = id(member.encoder)
        weights[key] = weights.get(key, 0.0) + member.weight
    encoders = {id(encoder): encoder for encoder in model.encoders}
    sides = [_side(encoders[key], weight, texts) for key, weight in weights.items()]
    width = max(side.ids.shape[1] for side in sides)
    sides = [side.widened(width) for side in sides]
    rows = [slice(2 * at, 2 * at + 2) for at in range(len(sides))]

    def forward(ids: Tensor, masks: Tensor) -> Tensor:
        items = len(ids) // (2 * len(sides))
        split = [part.reshape(items, -1, width) for part in (ids, masks)]
        parts = [
            side.embed(*(part[:, own].reshape(-1, width) for part in split))
            for side, own in zip(sides, rows, strict=True)
        ]
        total = torch.stack(parts).sum(dim=0)
        return model.compare(total[0::2], total[1::2])

    ids = torch.cat([side.ids for side in sides])
    neutral = torch.tensor([[_neutral_token(side.encoder)] for side in sides for _ in texts])
    return TokenizedItem(
        ids=ids,
        mask=torch.cat([side.mask for side in sides]),
        neutral=neutral.to(ids.device),
        places=tuple(row for side in sides for row in side.places),
        tables=tuple(
            Table(backbone.get_input_embeddings(), own)
            for side, own in zip(sides, rows, strict=True)
            for backbone in side.encoder.backbones
        ),
        forward=forward,
        states=tuple(
            States(own, side.states, side.weight) for side, own in zip(sides, rows, strict=True)
        ),
    )


def _side(encoder: Encoder, weight: float, texts: Sequence[str]) -> _Side:
    _check_run_by_torch(encoder, "alignment and integrated gradients")
    _check_offsets(encoder)
    prompt, tokenizer = encoder.prompt, encoder.tokenizer
    framed = tokenizer(
        [prompt + text for text in texts],
        truncation=True,
        max_length=encoder.max_length,
        return_offsets_mapping=True,
        verbose=False,
    )
    padded = tokenizer.pad({"input_ids": framed["input_ids"]}, return_tensors="pt")
    ids, mask = (padded[key].to(encoder.device) for key in ("input_ids", "attention_mask"))
    places = []
    for text, row in enumerate(mask.bool().tolist()):
        words = split_words(texts[text])
        # Special tokens have an empty range, and the prompt ends where the text begins.
        found = iter(
            (max(start - len(prompt), 0), end - len(prompt))
            for start, end in framed["offset_mapping"][text]
        )
        # Padding may stand on either side.
        own = [word_of(next(found), words) if real else None for real in row]
        places.append(_places(text, own))
    return _Side(encoder, weight, ids, mask, tuple(places))


def _tokenize_triple(
    scorer: ConditionalScorer, texts: Sequence[str], *, weight: float
) -> TokenizedItem:
    """Two sentences and a condition, in the sequences that the model makes of them."""
    _check_run_by_torch(scorer, "alignment, attention and integrated gradients")
    model, encoder, (low, high) = scorer.model, scorer.encoder, scorer.scale
    _check_offsets(encoder)
    rows = model.sequences([(texts[0], texts[1], texts[2])])[0]
    features = model.features([rows])
    ids, mask, segments = (
        features[key].to(encoder.device) for key in ("input_ids", "attention_mask", "segments")
    )
    found = [_places(at, word_places(encoder.tokenizer, text)) for at, text in enumerate(texts)]
    found[2] = (None,) * len(found[2])  # the condition keeps its words
    count, separator = len(rows), model.reader.tokenizer.separator

    def forward(items: Tensor, masks: Tensor) -> Tensor:
        inputs = {"input_ids": items, "attention_mask": masks}
        with evaluating(model), model.head.full_gradient():
            encoded = encoder.forward(inputs, attention_layers=model.head.attention_layers)
            encoded = replace(encoded, segments=segments.repeat(len(items) // count, 1))
            # Item by item so far, as gradients are taken; the head wants side by side.
            order = torch.arange(len(items)).reshape(-1, count).T.flatten()
            score: Tensor = model.head(encoded.rows(order).split(count)).score
        return low + (high - low) * score

    def states(items: Tensor, masks: Tensor) -> Tensor:
        with evaluating(model):
            return encoder.forward({"input_ids": items, "attention_mask": masks}).tokens

    return TokenizedItem(
        ids=ids,
        mask=mask,
        neutral=torch.full_like(ids[:, :1], _neutral_token(encoder)),
        places=tuple(
            _joined(row.ids, [found[at] for at in members], separator, ids.shape[1])
            for members, row in zip(model.head.sequences, rows, strict=True)
        ),
        tables=tuple(
            Table(backbone.get_input_embeddings(), slice(None)) for backbone in encoder.backbones
        ),
        forward=forward,
        states=(States(slice(None), states),),
        weight=weight,
    )


def _joined(ids: Sequence[int], texts: Sequence[Places], separator: int, width: int) -> Places:
    """Tokens between two special ones belong to one text, of which the end may be cut off."""
    left = iter(texts)
    own = iter(next(left))
    found: list[Place | None] = [None]
    for token in ids[1:]:
        if token == separator:
            found.append(None)
            own = iter(next(left, ()))
        else:
            found.append(next(own))
    return (*found, *[None] * (width - len(found)))


def _places(text: int, words: Sequence[int | None]) -> Places:
    return tuple(None if word is None else (text, word) for word in words)


def _neutral_token(encoder: Encoder) -> int:
    """Not padding if possible, which some models give no place in the sequence."""
    tokenizer = encoder.tokenizer
    for token in (tokenizer.mask_token_id, tokenizer.unk_token_id, tokenizer.pad_token_id):
        if token is not None:
            return int(token)
    raise TertiumError("This model's tokenizer has no token that carries no meaning.")


def _check_offsets(encoder: Encoder) -> None:
    if not encoder.tokenizer.is_fast:
        raise TertiumError(
            f"The tokenizer of {encoder.name} does not say where a token stands in the text: only "
            "occlusion can explain it."
        )


def _check_run_by_torch(part: Encoder | ConditionalScorer, wanted: str) -> None:
    exact = part.needs_engine and part.engine is not None and part.engine.name == "onnx"
    if part.engine is not None and not exact:  # else torch gives the same answers
        raise TertiumError(
            f"{part.name} is run by {part.engine.name}, which shows nothing but scores: for "
            f"{wanted} take the engine torch."
        )
