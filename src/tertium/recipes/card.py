"""The model card: recipe, data, licences, figures and the command that makes them again."""

from collections.abc import Collection, Mapping
from pathlib import Path

import yaml

from tertium.evaluation import Report
from tertium.files import atomic_path
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
        folder: the model.
        recipe: as it was checked.
        report: of the evaluation at the end, if there was one.
        seconds: wall time of training.
        command: that made the model.
        licences: terms of the data.
        amounts: how much data each stage ran on.
        chosen_on: what chose the checkpoint, stage by stage.
    """
    front = {"library_name": "sentence-transformers", "tags": ["sentence-similarity", "tertium"]}
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
    with atomic_path(folder / "README.md") as temporary:
        temporary.write_text("\n".join(parts), encoding="utf-8")


def _use(recipe: Recipe) -> list[str]:
    if recipe.stages[-1].data.kind == "conditional":
        return [
            'model.score([("one text", "another", "in this respect")])',
            "```",
            "",
            "The encoder by itself is in the folder `encoder`.",
        ]
    return [
        'model.score([("one text", "another")])',
        "```",
        "",
        "As an embedder it also loads with plain `SentenceTransformer(path)`"
        + (", after `import tertium`." if recipe.encoder.towers == 2 else "."),
    ]
