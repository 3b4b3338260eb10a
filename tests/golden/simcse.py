"""SimCSE: contrast, poolings, and whole training steps."""

import torch
from torch import Tensor, nn
from torch.nn.functional import linear
from transformers import AutoModelForMaskedLM, PreTrainedModel

from tertium.functional import info_nce, pool
from tertium.functional.contrast import contrast_logits
from tertium.objectives import InfoNCE
from tertium.objectives.base import reduce_terms
from tertium.objectives.masked_lm import masked_lm
from tertium.types import Encoded, Pooling, Term, ViewPair
from tests.golden.cases import Case

POOLERS = {
    "cls": Pooling.CLS,
    "cls_before_pooler": Pooling.CLS,
    "avg": Pooling.MEAN,
    "avg_top2": Pooling.MEAN_TOP2,
    "avg_first_last": Pooling.MEAN_FIRST_LAST,
    "avg_first_last_embedding0": Pooling.MEAN_EMBEDDING_LAST,
}


def z_unsup(case: Case) -> None:
    for at, temperature in enumerate(case.settings["temperatures"]):
        z1, z2 = case.leaf("z1"), case.leaf("z2")
        case.same(contrast_logits(z1, z2, temperature=float(temperature)), f"t{at}.sim")
        loss = info_nce(z1, z2, temperature=float(temperature)).mean()
        loss.backward()
        case.same(loss, f"t{at}.loss")
        case.same(z1.grad, f"t{at}.grad.z1")
        case.same(z2.grad, f"t{at}.grad.z2")


def z_sup_hard_negatives(case: Case) -> None:
    for at, weight in enumerate(case.settings["hard_negative_weights"]):
        z = {name: case.leaf(name) for name in ("z1", "z2", "z3")}
        options = {
            "temperature": float(case.settings["temperature"]),
            "negative_weight": float(weight),
        }
        case.same(contrast_logits(z["z1"], z["z2"], negatives=z["z3"], **options), f"w{at}.sim")
        loss = info_nce(z["z1"], z["z2"], negatives=z["z3"], **options).mean()
        loss.backward()
        case.same(loss, f"w{at}.loss")
        for name, leaf in z.items():
            case.same(leaf.grad, f"w{at}.grad.{name}")


def poolers(case: Case) -> None:
    hidden, mask = list(case.tensors["hidden_states"]), case.tensors["attention_mask"]
    for name in [*case.settings["poolers"], "avg_first_last_embedding0"]:
        case.same(pool(hidden, mask, POOLERS[name]), f"pool.{name}")
    weight, bias = case.tensors["mlp.dense.weight"], case.tensors["mlp.dense.bias"]
    first = pool(hidden, mask, Pooling.CLS_MLP)
    case.same(linear(first, weight, bias).tanh(), "pool.cls_with_mlp")


def step(case: Case) -> None:
    """Views, InfoNCE and, where the case has it, the masked-language-model term."""
    model = case.model()
    weight, bias = case.leaf("mlp.dense.weight"), case.leaf("mlp.dense.bias")
    ids, mask = case.tensors["input_ids"], case.tensors["attention_mask"]
    flat = model(ids.flatten(0, 1), attention_mask=mask.flatten(0, 1)).last_hidden_state
    tokens = flat.unflatten(0, ids.shape[:2])
    views = [
        _encoded(tokens[:, at], mask[:, at], weight, bias)
        for at in range(case.settings["num_sent"])
    ]
    objective = InfoNCE(
        temperature=float(case.settings["temperature"]),
        negative_weight=float(case.settings["hard_negative_weight"] or 0.0),
    )
    logits = contrast_logits(
        views[0].embedding,
        views[1].embedding,
        temperature=objective.temperature,
        negatives=views[2].embedding if len(views) > 2 else None,
        negative_weight=objective.negative_weight,
    )
    case.same(logits, "sim")
    terms = objective.terms(ViewPair(*views))
    head = None
    if case.settings["mlm_weight"] is not None:
        head = _language_head(case, model)
        masked = model(
            case.tensors["mlm_input_ids"].flatten(0, 1), attention_mask=mask.flatten(0, 1)
        ).last_hidden_state
        values = masked_lm(masked, case.tensors["mlm_labels"].flatten(0, 1), head=head)
        terms["mlm"] = Term(values, weight=case.settings["mlm_weight"])
        case.same(terms["contrast"].value.mean(), "loss_contrastive")
    loss = sum(reduce_terms(terms).values(), start=torch.tensor(0.0))
    loss.backward()
    case.same(loss, "loss")
    gradients = {"mlp.dense.weight": weight.grad, "mlp.dense.bias": bias.grad}
    gradients |= {f"encoder_model.{n}": p.grad for n, p in model.named_parameters()}
    if head is not None:
        named = head.named_parameters(remove_duplicate=False)
        gradients |= {f"lm_head.{name}": p.grad for name, p in named}
    for name in case.tensors:
        if name.startswith("grad."):
            case.same(gradients[name.removeprefix("grad.")], name)
    case.same(views[0].tokens[:, 0], "sent_emb.mlp_only_train")
    case.same(views[0].embedding, "sent_emb.mlp_always")


def _encoded(tokens: Tensor, mask: Tensor, weight: Tensor, bias: Tensor) -> Encoded:
    first = pool([tokens], mask, Pooling.CLS_MLP)
    return Encoded(embedding=linear(first, weight, bias).tanh(), tokens=tokens, mask=mask)


def _language_head(case: Case, model: PreTrainedModel) -> nn.Module:
    """The architecture's own head with the case's weights, not tied to the embeddings."""
    whole = AutoModelForMaskedLM.from_config(model.config)
    head = whole.cls.predictions if hasattr(whole, "cls") else whole.lm_head
    names = [name for name in case.tensors if name.startswith("lm_head.")]
    weights = {name.removeprefix("lm_head."): case.tensors[name] for name in names}
    head.decoder = nn.Linear(*reversed(weights["decoder.weight"].shape))
    head.load_state_dict(weights)
    head.bias = head.decoder.bias  # one parameter under two names
    return head
