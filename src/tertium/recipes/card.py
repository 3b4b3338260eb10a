"""The model card: recipe, data, licences, scores and the command to reproduce them."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import yaml

from tertium.evaluation import Report
from tertium.files import write_text
from tertium.recipes.data import Amount
from tertium.recipes.schema import Recipe

__all__ = ["write_card"]


def write_card(
    folder: Path,
    recipe: Recipe,
    report: Report | None,
    *,
    seconds: float,
    command: str | None,
    licences: Collection[str],
    amounts: Mapping[str, Amount],
    chosen_on: Collection[str] = (),
) -> None:
    """Write ``README.md`` (and ``report.json``) into a model folder.

    Args:
        folder: folder of the model.
        recipe: the validated recipe.
        report: report of the final evaluation, if there was one.
        seconds: wall time of training.
        command: command that trained the model.
        licences: terms of the data.
        amounts: how much data each stage used.
        chosen_on: the data that selected the checkpoint, stage by stage.
    """
    front: dict[str, Any] = {
        "library_name": "sentence-transformers",
        "tags": ["sentence-similarity", "tertium"],
    }
    if report is not None:
        front["model-index"] = _model_index(folder.name, report)
    sources = sorted(
        {f"{s.name or s.file} ({s.split})" for stage in recipe.stages for s in stage.data.sources}
    )
    teachers = [stage.teacher.models for stage in recipe.stages if stage.teacher is not None]
    parts = [
        "---",
        yaml.safe_dump(front, sort_keys=False).strip(),
        "---",
        f"# {recipe.summary}",
        "",
        f"Starts from `{recipe.encoder.model}`. {recipe.source}".strip(),
        "",
        "## Use",
        "",
        "```python",
        "import tertium",
        "",
        f'model = tertium.load("{folder.name}")',
        *_use(recipe),
        "",
        "## Data",
        "",
        *(f"- {source}" for source in sources),
        *(f"- embeddings of {' + '.join(names)}" for names in teachers),
        "",
        *(f"Stage `{name}` ran on {amount}." for name, amount in amounts.items()),
        "",
        "Terms of the data: " + "; ".join(sorted(licences)) + ".",
        *(f"Checkpoint chosen on {name}." for name in dict.fromkeys(chosen_on)),
        "",
    ]
    if report is not None:
        parts += ["## Figures", "", report.to_markdown().split("\n", 1)[1].strip(), ""]
        if recipe.published is not None:
            parts += [f"The paper reports {recipe.published:g} for its own model and data.", ""]
        if recipe.published_transfer is not None:
            figure = f"{recipe.published_transfer:g}"
            parts += [f"On transfer tasks the paper reports an average of {figure}.", ""]
    parts += [
        "## Recipe",
        "",
        f"Made by `{command or 'tertium train'}` in {seconds / 60:.1f} minutes.",
        "",
        "```yaml",
        recipe.to_yaml().strip(),
        "```",
        "",
    ]
    if report is not None:
        report.save(folder / "report.json")
    write_text(folder / "README.md", "\n".join(parts))


def _use(recipe: Recipe) -> list[str]:
    if recipe.stages[-1].data.kind == "conditional":
        return [
            'model.score([("one text", "another", "in this respect")])',
            "```",
            "",
            "The encoder by itself is in the folder `encoder`.",
        ]
    if recipe.stages[-1].head is not None:
        return ['model.score([("one text", "another")])', "```"]
    return [
        'model.score([("one text", "another")])',
        "```",
        "",
        "As an embedder it also loads with plain `SentenceTransformer(path)`"
        + (", after `import tertium`." if recipe.encoder.towers == 2 else "."),
    ]


def _model_index(name: str, report: Report) -> list[dict[str, Any]]:
    """The scores in the form that the hub reads from a card."""
    results = [
        {
            "task": {"type": "sentence-similarity", "name": suite.suite},
            "dataset": {"type": task.task.lower(), "name": task.task},
            "metrics": [{"type": suite.headline, "value": round(task.values[suite.headline], 2)}],
        }
        for suite in report.suites
        for task in suite.tasks
        if task.values.get(suite.headline) is not None
    ]
    return [{"name": name, "results": results}]
