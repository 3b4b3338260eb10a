"""SEAVER: reweighting matrices, self-augmentation, regressor, loss and gradients."""

import torch
from torch import Tensor
from torch.nn.functional import mse_loss

from tertium.functional.reallocation import PADDING, augment_states, reweighting
from tertium.heads.cross import SeaverHead
from tertium.heads.layout import ModelShape
from tertium.types import Encoded
from tests.golden.cases import Case


def cross_encoder(case: Case) -> None:
    ids, mask = case.tensors["input_ids"], case.tensors["attention_mask"]
    segments = _segments(ids, mask, separator=case.settings["separator_id"])
    for at, alpha in enumerate(case.settings["alphas"]):
        model = case.model()
        out = model(ids, attention_mask=mask, output_attentions=True)
        states, attention = out.last_hidden_state, out.attentions[-1]
        case.same(states, "O")
        case.same(attention, "attention_last")
        weights = reweighting(attention, segments)
        for row in range(len(ids)):
            for name, segment in (("W_S", 0), ("W_C", 1)):
                own = (segments[row] == segment).nonzero().flatten()
                case.same(weights[row][:, own][:, :, own], f"ex{row}.{name}")
        case.same(augment_states(states, weights), "reweighted_concat")
        head = _head(case, states, alpha=float(alpha))
        side = Encoded(states[:, 0], states, mask, attention=attention[None], segments=segments)
        augmented = head.augmentation(states, head.attention(side), segments)
        case.same(augmented - alpha * states, "RO")
        case.same(augmented, f"a{at}.AO")
        logits = head.regressor(augmented, segments)
        case.same(logits, f"a{at}.logits")
        loss = mse_loss(logits.squeeze(1), case.tensors["labels"])
        case.same(loss, f"a{at}.loss")
        loss.backward()
        named = {
            **{f"encoder_model.{n}": p for n, p in model.named_parameters()},
            **dict(head.regressor.named_parameters()),
            **dict(head.augmentation.named_parameters()),
        }
        prefix = f"a{at}.grad."
        for name in case.tensors:
            if name.startswith(prefix):
                case.same(named[name.removeprefix(prefix)].grad, name)


def _head(case: Case, states: Tensor, *, alpha: float) -> SeaverHead:
    width, dimension = states.shape[1:]
    shape = ModelShape(
        dimension=dimension, embedding=dimension, heads=case.settings["heads"], depth=1
    )
    head = SeaverHead(shape, alpha=alpha, regressor="flatten", length=width, dropout=0.0)
    for module in (head.augmentation, head.regressor):
        module.load_state_dict({name: case.tensors[name] for name in module.state_dict()})
    return head


def _segments(ids: Tensor, mask: Tensor, *, separator: int) -> Tensor:
    """Sentences up to the second separator, the condition up to the third, then padding."""
    is_separator = (ids == separator) & mask.bool()
    before = is_separator.cumsum(dim=1) - is_separator.long()
    segments = (before >= 2).long()
    return torch.where((before >= 3) | ~mask.bool(), PADDING, segments)
