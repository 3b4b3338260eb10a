"""Options state the defaults of the functions that they feed."""

import ast
import inspect
import pkgutil
import re
from enum import Enum
from typing import Any

import pytest
import typer.testing
from pydantic import BaseModel

from tertium.cli import PANELS, app
from tertium.cli import command as command_line
from tertium.recipes.files import read_recipe
from tools.reference import commands

# What a command hands its options to; an option that is called otherwise there is renamed.
FEEDS = {
    "attention": ["tertium.analysis.pair_information"],
    "backtranslate": ["tertium.jobs.backtranslate.round_trip"],
    "cluster": ["tertium.corpus.cluster"],
    "dedupe": ["tertium.corpus.dedupe"],
    "encode": ["tertium.jobs.encode_file", "tertium.jobs.Execution"],
    "evaluate": ["tertium.evaluate", "tertium.evaluation.run"],
    "explain": ["tertium.Encoder.explain"],
    "index build": ["tertium.corpus.Index.build"],
    "index search": ["tertium.corpus.Index.search_many"],
    "inspect": ["tertium.analysis.inspection.inspect_encoders"],
    "mine": ["tertium.corpus.mine"],
    "report": ["tertium.report.build_report"],
    "score": ["tertium.jobs.score_file", "tertium.jobs.Execution"],
    "sweep": ["tertium.recipes.sweep.run_sweep"],
    "train": ["tertium.recipes.train.train"],
    "tune": ["tertium.engines.tuning.tune"],
}
RENAMED = {
    "bootstrap": "resamples",
    "evaluation": "evaluate_after",
    "from_": "back",
    "jobs": "workers",
}
# What commands decide for themselves.
OWN = {("score", "model"), ("encode", "workers"), ("score", "workers"), ("encode", "shard_rows")}
OWN |= {("score", "shard_rows"), ("report", "sentence"), ("tune", "texts")}


def stated(parameter: Any) -> Any:
    """The default of an option, or the number or word that its help names."""
    if parameter.default not in (None, []):
        return parameter.default
    named = re.search(r"\(default: ([\w.-]+)\)", parameter.help or "")
    if named is None or named[1] == "all":
        return None
    return ast.literal_eval(named[1]) if named[1][0].isdigit() else named[1]


@pytest.mark.parametrize("command", FEEDS)
def test_defaults_are_those_of_the_functions(command: str) -> None:
    compared = 0
    options = {p.name: p for p in commands()[f"tertium {command}"].params}
    for name in FEEDS[command]:
        for key, parameter in inspect.signature(pkgutil.resolve_name(name)).parameters.items():
            given = {RENAMED.get(option, option): p for option, p in options.items()}.get(key)
            if given is None or parameter.default is parameter.empty or (command, key) in OWN:
                continue
            default = parameter.default
            default = default.value if isinstance(default, Enum) else default
            default = list(default) if isinstance(default, tuple) else default
            assert (stated(given) or None) == (default or None), (command, key)
            compared += 1
    assert compared


def test_distil_states_the_settings_of_its_recipe() -> None:
    recipe = read_recipe("distil-minilm")
    options = {p.name: p for p in commands()["tertium distil"].params}
    train: BaseModel = recipe.stages[0].train
    for name in ("epochs", "batch_size", "learning_rate", "seed"):
        assert stated(options[name]) == getattr(train, name), name
    assert options["student"].default == recipe.encoder.model


def test_old_names_of_options_still_work_and_are_not_shown() -> None:
    offered = {name: {o for p in c.params for o in p.opts} for name, c in commands().items()}
    for (command, old), new in command_line.RENAMED.items():
        full = next(name for name in offered if name.endswith(f" {command}"))
        assert new in offered[full] and old not in offered[full]
    context = typer.Context(commands()["tertium index search"])
    commands()["tertium index search"].parse_args(context, ["x", "--k=3", "--", "--k"])
    assert context.params["top_k"] == 3 and context.params["queries"] == ["--k"]


def test_help_is_in_panels_and_shows_no_type_beside_flags() -> None:
    shown = typer.testing.CliRunner().invoke(app, ["--help"]).output
    assert [shown.index(f"─ {panel} ─") for panel in PANELS] == sorted(
        shown.index(f"─ {panel} ─") for panel in PANELS
    )
    for name in ("mine", "index", "models"):
        assert "bool" not in typer.testing.CliRunner().invoke(app, [name, "--help"]).output
