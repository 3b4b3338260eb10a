"""What miCSE adds to a SimCSE step: time, memory, and its attention term against a plain loop.

python benchmarks/train_micse.py
"""

import subprocess
import sys
import time
import warnings
from statistics import median

import torch
from common import peak_memory, publish
from torch import Tensor
from train_contrastive import BATCH, LENGTH, Step, load_module, load_texts, our_step, times_in_turn

from tertium.functional.attention_mi import attention_layers, attention_slices
from tertium.objectives import AttentionMI
from tertium.training.examples import Collator
from tertium.types import Encoded, ViewPair

SIMCSE, MICSE = "simcse-minilm", "micse-minilm"
SAMPLES = 150
TERMS = 12  # batches for the term alone, and for the memory


def main() -> None:
    """Steps in turn in one process; peak memory in a process for each recipe."""
    warnings.simplefilter("ignore")
    steps = {
        "SimCSE step": our_step(SIMCSE),
        "miCSE step": our_step(MICSE),
        "AMI + SimCSE step, no queue": our_step("ami-simcse-minilm"),
    }
    middle = times_in_turn(steps)
    ours, loop = _term_times()
    peak = {name: _peak(name) for name in (SIMCSE, MICSE)}
    rows = [[name, f"{1000 * took:.0f} ms"] for name, took in middle.items()]
    rows += [
        ["AMI term and its gradient, tertium", f"{1000 * ours:.1f} ms"],
        ["AMI term and its gradient, a loop over slices", f"{1000 * loop:.1f} ms"],
        ["peak memory, SimCSE", f"{peak[SIMCSE]:.0f} MB"],
        ["peak memory, miCSE", f"{peak[MICSE]:.0f} MB"],
    ]
    ratios = {
        "miCSE step, times the cost of our SimCSE step": middle["miCSE step"]
        / middle["SimCSE step"],
        "AMI term, times as fast as the loop": loop / ours,
        "peak memory of miCSE, times SimCSE's": peak[MICSE] / peak[SIMCSE],
    }
    rows += [[f"**{name}**", f"**{ratio:.2f}**"] for name, ratio in ratios.items()]
    title = f"miCSE's step, batch {BATCH}, at most {LENGTH} tokens, Wikipedia sentences"
    publish("train_micse", title, ["what", "here"], rows)


def load_batches() -> list[list[str]]:
    """The same batches for all."""
    texts = load_texts()
    return [texts[at : at + BATCH] for at in range(0, BATCH * TERMS, BATCH)]


def _term_times() -> tuple[float, float]:
    """The attention term with its gradient on real attention maps: ours, and slice by slice."""
    module = load_module(SIMCSE)
    encoder = module.encoder
    module.train()
    collate = Collator(encoder.tokenizer, max_length=LENGTH)
    layers = attention_layers(int(encoder.backbone.config.num_hidden_layers))
    objective = AttentionMI(samples=SAMPLES)
    ours, loop = [], []
    for batch in load_batches():
        features = collate([((text,), None) for text in batch])
        with torch.no_grad():
            views = [encoder.forward(features, attention_layers=layers) for _ in range(2)]
        pair = ViewPair(*(_with_gradient(view) for view in views))
        start = time.perf_counter()
        objective.terms(pair)["attention_mi"].value.mean().backward()
        middle = time.perf_counter()
        _loop(pair).backward()
        ours.append(middle - start)
        loop.append(time.perf_counter() - middle)
    return median(ours[2:]), median(loop[2:])


def _with_gradient(view: Encoded) -> Encoded:
    assert view.attention is not None
    view.attention.requires_grad_()
    return view


def _loop(pair: ViewPair) -> Tensor:
    """The same term as one would first write it: sentence by sentence, slice by slice."""
    assert pair.first.attention is not None and pair.second.attention is not None
    first = attention_slices(pair.first.attention)
    second = attention_slices(pair.second.attention)
    found = []
    for sentence in range(len(first)):
        for one, two in zip(first[sentence], second[sentence], strict=True):
            valid = torch.nonzero((one > 0) & (two > 0)).flatten()
            chosen = valid[torch.randperm(len(valid))[:SAMPLES]]
            both = torch.stack([one[chosen].log(), two[chosen].log()])
            rho = torch.corrcoef(both)[0, 1]
            found.append(-0.5 * torch.log((1 - rho**2).clamp(min=1e-6)))
    return -torch.stack(found).mean()


def _peak(recipe: str) -> float:
    command = [sys.executable, __file__, "--peak", recipe]
    return float(subprocess.check_output(command).split()[-1])


def run_alone(recipe: str) -> None:
    """Some steps of one recipe, then the peak in MB on standard output."""
    warnings.simplefilter("ignore")
    step: Step = our_step(recipe)
    for batch in load_batches():
        step(batch)
    print(peak_memory())


if __name__ == "__main__":
    if "--peak" in sys.argv:
        run_alone(sys.argv[2])
    else:
        main()
