from typing import Any

import pytest
import torch

import tertium
from tertium.analysis import Augmented, Step, augment, drop_by_attention, dropped_figure
from tertium.errors import TertiumError
from tertium.models import Encoder
from tertium.training.vocabulary import read_vocabulary
from tertium.types import Tokens
from tertium.views import VIEWS, AttentionDropout
from tertium.views.attention_dropout import Aggregation

TEXT = "the cat sleeps , the dog barks ."


WORDS = TEXT.split()


@pytest.fixture(params=["bert", "roberta"])
def encoder(request: pytest.FixtureRequest) -> Encoder:
    loaded = tertium.load(request.getfixturevalue(f"tiny_{request.param}"), engine="torch")
    assert isinstance(loaded, Encoder)
    return loaded


def dropping(encoder: Encoder, text: str = TEXT, **settings: Any) -> Augmented:
    view = AttentionDropout(read_vocabulary(encoder.tokenizer), **{"t": 0, **settings})
    return drop_by_attention(encoder, view, text)


def left(encoder: Encoder, text: str) -> list[str]:
    """The words of a decoded text, however its tokenizer joins them."""
    return [str(token) for token in encoder.tokenizer.tokenize(text)]


@pytest.mark.parametrize("aggregation", list(Aggregation))
def test_tokens_go_in_the_order_of_their_scores(encoder: Encoder, aggregation: Aggregation) -> None:
    found = dropping(encoder, aggregation=aggregation, k=4)
    content = range(1, len(found.tokens) - 1)
    order = sorted(content, key=lambda at: found.scores[at])
    assert [step.position for step in found.steps] == order[:4]
    for gone, step in enumerate(found.steps, 1):
        assert step.token == found.tokens[step.position]
        kept = [found.tokens[at] for at in content if at not in order[:gone]]
        assert left(encoder, step.text) == kept


@pytest.mark.parametrize("aggregation", list(Aggregation))
def test_the_steps_are_what_the_view_does(encoder: Encoder, aggregation: Aggregation) -> None:
    vocabulary = read_vocabulary(encoder.tokenizer)
    features = encoder.features([TEXT])
    tokens = Tokens(features["input_ids"], features["attention_mask"])
    for k in range(1, 5):
        view = AttentionDropout(vocabulary, aggregation=aggregation, k=k, t=0)
        changed = view(tokens, attend=encoder.attention)
        kept = changed.ids[0][vocabulary.content(changed)[0]].tolist()
        last = drop_by_attention(encoder, view, TEXT).steps[-1]
        assert left(encoder, last.text) == encoder.tokenizer.convert_ids_to_tokens(kept)


def test_the_parts_belong_together(encoder: Encoder) -> None:
    found = dropping(encoder, k=2)
    special = {encoder.tokenizer.cls_token, encoder.tokenizer.sep_token}
    assert list(found.tokens[1:-1]) == WORDS
    assert {found.tokens[0], found.tokens[-1]} == special
    assert len(found.scores) == len(found.droppable) == len(found.tokens)
    assert all(score >= 0 for score in found.scores)
    # Every token gives away as much attention as there are layers and heads.
    config = encoder.backbone.config
    given = len(found.tokens) * config.num_hidden_layers * config.num_attention_heads
    assert sum(found.scores) == pytest.approx(given, rel=1e-5)


def test_special_tokens_stay_unless_they_are_not_protected(encoder: Encoder) -> None:
    protected = dropping(encoder, k=50)
    assert protected.droppable == (False, *[True] * len(WORDS), False)
    assert len(protected.steps) == len(WORDS) - 1  # one token of content is left
    assert left(encoder, protected.steps[-1].text)
    open_to_all = dropping(encoder, k=50, protect_special_tokens=False)
    assert all(open_to_all.droppable)
    assert {step.position for step in open_to_all.steps} == {*range(len(open_to_all.tokens))}
    assert open_to_all.steps[-1].text == ""
    assert open_to_all.scores == protected.scores


def test_the_rate_does_not_matter(encoder: Encoder) -> None:
    short = dropping(encoder, "the cat", k=1, t=10)
    assert len(short.steps) == 1
    assert dropping(encoder, k=3, rate="dynamic", t=2) == dropping(encoder, k=3)


def test_one_word_cannot_lose_it(encoder: Encoder) -> None:
    assert dropping(encoder, "cat", k=3).steps == ()


def test_the_model_is_left_as_it_was(encoder: Encoder) -> None:
    encoder.model.train()
    assert dropping(encoder, k=3) == dropping(encoder, k=3)  # no dropout in the scores
    assert encoder.model.training
    assert all(parameter.grad is None for parameter in encoder.model.parameters())


@pytest.mark.parametrize("name", [name for name in VIEWS if name not in ("add", "dropout")])
def test_a_seed_chooses_a_view(encoder: Encoder, name: str) -> None:
    views = [VIEWS[name](read_vocabulary(encoder.tokenizer))]
    before = torch.random.get_rng_state()
    made = [augment(encoder, views, TEXT, seed=seed) for seed in range(20)]
    assert made == [augment(encoder, views, TEXT, seed=seed) for seed in range(20)]
    assert len(set(made)) > 1
    assert torch.equal(torch.random.get_rng_state(), before)


def test_views_stack_each_on_the_one_before(encoder: Encoder) -> None:
    vocabulary = read_vocabulary(encoder.tokenizer)
    assert left(encoder, augment(encoder, [], TEXT, seed=0)) == WORDS
    twice = [AttentionDropout(vocabulary, k=k, t=0) for k in (1, 2)]
    assert len(left(encoder, augment(encoder, twice, TEXT, seed=0))) == len(WORDS) - 3
    masked = [VIEWS["span_mask"](vocabulary), VIEWS["dropout"](vocabulary)]
    assert str(encoder.tokenizer.mask_token) in augment(encoder, masked, TEXT, seed=0)


@pytest.mark.parametrize("text", ["", "  \n"])
def test_a_text_is_needed(encoder: Encoder, text: str) -> None:
    with pytest.raises(TertiumError, match="text is empty"):
        dropping(encoder, text)
    with pytest.raises(TertiumError, match="text is empty"):
        augment(encoder, [], text, seed=0)


FOUND = Augmented(
    ("[CLS]", "a", "cat", "sleeps", "[SEP]"),
    (90.0, 1.0, 3.0, 2.0, 4.0),
    (False, True, True, True, False),
    (Step(1, "a", "cat sleeps"), Step(3, "sleeps", "cat")),
)


def test_bars_order_and_what_is_cut() -> None:
    figure: Any = dropped_figure({"naive": FOUND, "rollout": FOUND})
    naive, rollout = figure.axes
    assert (naive.get_title(), rollout.get_title()) == ("naive", "rollout")
    widths = [bar.get_width() for bar in naive.patches]
    assert widths == pytest.approx([3.75, 1.0, 3.0, 2.0, 3.75])  # CLS would dwarf all others
    numbers = {text.get_text().strip(): text.get_position()[1] for text in naive.texts}
    assert (numbers["1."], numbers["2."], numbers["90.0"]) == (1, 3, 0)
    colours = [bar.get_facecolor() for bar in naive.patches]
    assert colours[1] == colours[3] != colours[2] and colours[0] == colours[4]
    figure.canvas.draw()
