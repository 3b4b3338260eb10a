"""What the pages say about the code is what the code does: names, defaults, lists and figures."""

import ast
import inspect
import json
import pkgutil
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import typer.main
import yaml
from pydantic import BaseModel

import tertium
from tertium import types
from tertium.cli import app
from tertium.data.rows import (
    LABEL_NAMES,
    RATER_NAMES,
    ConditionalPair,
    GradedPair,
    LabelledPair,
    NliPair,
    Row,
    Sentence,
    Triplet,
)
from tertium.engines.check import engine_states
from tertium.models import NAMES
from tertium.recipes import schema
from tertium.recipes.files import read_recipe, recipe_names
from tertium.recipes.lowshot import run_low_shot
from tertium.recipes.sweep import sweep_names
from tertium.recipes.train import train
from tests.forking import fork_command
from tests.recipes.toys import toy_benchmarks, toy_pairs, toy_recipe, toy_stage
from tests.test_docs import DOCS, FENCE, PAGES, ROOT
from tools.reference import commands

CARDS = sorted((ROOT / "src").rglob("README.md"))
COMMANDS = commands()

# A command line begins with tertium, perhaps after variables or what starts it as a module.
COMMAND = re.compile(r"^(?:\w+=\S+ |(?:python|torchrun|accelerate)\b.* -m )*tertium (.+)$")
RULE = re.compile(r"^\|(?:[ :-]+\|)+$")


def text_of(page: str) -> str:
    return (DOCS / page).read_text(encoding="utf-8")


def section(text: str, heading: str) -> str:
    """What stands under a heading, up to the next one of its level or above."""
    level = len(heading) - len(heading.lstrip("#"))
    found = re.search(
        rf"^{re.escape(heading)}\n(.*?)(?=^#{{1,{level}}} |\Z)", text, flags=re.M | re.S
    )
    assert found, heading
    return found[1]


def rows(text: str) -> Iterator[list[str]]:
    """The cells of every row of every table, without headers."""
    lines = text.splitlines()
    for at, line in enumerate(lines):
        header = at + 1 < len(lines) and RULE.match(lines[at + 1])
        if line.startswith("|") and not RULE.match(line) and not header:
            yield [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]


def named(text: str) -> list[str]:
    """What stands between backticks."""
    return re.findall(r"`([^`]+)`", text)


def options_of(command: Any) -> set[str]:
    return {option for p in command.params for option in (*p.opts, *p.secondary_opts)}


def taking(option: str) -> list[str]:
    """The commands that have an option."""
    return [name for name, command in COMMANDS.items() if option in options_of(command)]


def defaults(name: str) -> dict[str, str]:
    """What the reference states as the default of each option of a command."""
    return {
        option: cells[1]
        for cells in rows(section(text_of("reference/cli.md"), f"## `{name}`"))
        for option in named(cells[0])
        if len(cells) == 3
    }


# command lines


def command_lines(page: Path) -> list[list[str]]:
    """The words after ``tertium`` of every command line, in blocks and in running text."""
    text = page.read_text(encoding="utf-8")
    blocks = [body for language, body in FENCE.findall(text) if language != "python"]
    lines = [
        line.removeprefix("$ ")
        for body in blocks
        for line in body.replace("\\\n", " ").splitlines()
    ]
    lines += [code.replace("\n", " ") for code in named(FENCE.sub("", text))]
    found = [COMMAND.match(line) for line in lines]
    return [shlex.split(match[1], comments=True) for match in found if match]


def mistake(words: list[str]) -> str | None:
    """The first word of a command line that is not a command or an option of it."""
    command: Any = typer.main.get_command(app)
    rest = list(words)
    while hasattr(command, "commands") and rest and not rest[0].startswith(("-", "[")):
        first, *others = rest.pop(0).split("|")  # a table writes a|b for alternatives
        unknown = {first, *others} - command.commands.keys()
        if unknown:
            return unknown.pop()
        command = command.commands[first]
    known = options_of(command) | {"--help", "-h"}
    given = [word.strip("[]").partition("=")[0] for word in rest]
    return next((word for word in given if re.match(r"--?[a-z]", word) and word not in known), None)


@pytest.mark.parametrize("page", [*PAGES, *CARDS], ids=lambda path: str(path.relative_to(ROOT)))
def test_every_command_line_names_a_command_and_its_options(page: Path) -> None:
    assert [words for words in command_lines(page) if mistake(words)] == []


def test_command_lines_are_found_and_mistakes_noticed() -> None:
    found = [words for page in PAGES for words in command_lines(page)]
    assert len(found) > 300
    assert {words[0] for words in found} >= {name.split()[1] for name in COMMANDS}
    assert mistake(["compar", "a", "b"]) == "compar"
    assert mistake(["index", "build|ad"]) == "ad"
    assert mistake(["encode", "x.txt", "--worker", "3"]) == "--worker"
    assert mistake(["encode", "x.txt", "--jobs", "3", "-o", "y/"]) is None


def test_the_reference_states_the_default_of_every_option() -> None:
    stated, actual = {}, {}
    for name, command in COMMANDS.items():
        documented = defaults(name)
        for parameter in command.params:
            option, default = parameter.opts[0], parameter.default
            if option not in documented or (default in (None, []) and not parameter.required):
                continue  # a list, or described in words
            if isinstance(default, bool):
                default = "on" if default else "off"
            elif isinstance(default, float):
                default = f"{default:g}"
            actual[name, option] = "required" if parameter.required else str(default)
            stated[name, option] = documented[option].strip("`")
            if isinstance(default, int):
                stated[name, option] = stated[name, option].replace(",", "")
    assert stated == actual and len(stated) > 90


def test_help_and_pages_agree_on_jobs() -> None:
    (jobs,) = [p for p in COMMANDS["tertium encode"].params if "--jobs" in p.opts]
    rule = "one per processor, at most 8"
    assert rule in jobs.help and rule in text_of("how-to/bulk.md")
    assert defaults("tertium encode")["--jobs"] == rule


def test_the_engines_page_names_the_commands_that_take_an_engine() -> None:
    page = text_of("how-to/engines.md")
    sentence = re.search(r"commands take `--engine`: (.*?) In Python", page, re.S)
    assert sentence
    assert {f"tertium {name}" for name in named(sentence[1])} == set(taking("--engine"))


def test_the_engines_page_shows_the_engines_that_doctor_names() -> None:
    shown = re.findall(r"^engines   (\S+) ", text_of("how-to/engines.md"), re.M)
    assert shown == [*engine_states(), "bfloat16"]


def test_the_pages_name_the_columns_that_are_found_by_themselves() -> None:
    commands_with_column = taking("--column")
    for name in commands_with_column:
        stated = re.split(", | or ", defaults(name)["--column"])
        assert stated == list(Sentence.names("sentence")), name
    page = text_of("how-to/data.md")
    sentence = re.search(r"give it with `--column`, which (.*?) take", page, re.S)
    assert sentence
    first = {name.removeprefix("tertium ") for name in commands_with_column}
    assert set(named(sentence[1])) == {"index" if "index" in name else name for name in first}


# exit codes

FAILING = """
import tertium.cli
@tertium.cli.app.command()
def fail() -> None:
    raise {}
tertium.cli.main()
"""


@pytest.mark.integration
def test_exit_codes_are_those_of_the_reference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stated = re.search(r"exit code is (.*?)\.\n", text_of("reference/cli.md"), re.S)
    assert stated
    codes = {what: int(code) for code, what in re.findall(r"(\d+) for (?:an? )?(\w+)", stated[1])}
    calls = {
        "success": [["models"], ["--version"]],
        "mistake": [
            ["nonsense"],
            ["models", "--nonsense"],
            ["data", "check", "nowhere.tsv"],
            ["data", "check", "bad.tsv"],
        ],
    }
    failures = {"interruption": "KeyboardInterrupt", "bug": "ZeroDivisionError"}
    assert sorted(codes) == sorted({**calls, **failures})
    (tmp_path / "bad.tsv").write_text("sentence1\tsentence2\tscore\na\tb\tx\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    for what, lines in calls.items():
        for arguments in lines:
            ran = fork_command(*arguments, errors=tmp_path / "errors")
            assert ran.wait() == codes[what], (arguments, ran.errors.read_text())
            assert "Traceback" not in ran.errors.read_text()
    for what, error in failures.items():  # of which Python itself tells
        command = [sys.executable, "-c", FAILING.format(error), "fail"]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        assert ended.returncode == codes[what], ended.stderr
        assert ("Traceback" in ended.stderr) == (what == "bug")


# data


def test_the_column_names_of_the_data_page_are_those_of_the_rows() -> None:
    words = [name for name in LABEL_NAMES if name not in GradedPair.names("score")]
    known = {
        "sentence": [Sentence.names("sentence")],
        "sentence1": [GradedPair.names("sentence1")],
        "sentence2": [GradedPair.names("sentence2")],
        "score": [GradedPair.names("score")],
        "condition": [ConditionalPair.names("condition")],
        "label": [(*LabelledPair.names("label"), *NliPair.names("label"), *words)],
        "anchor": [Triplet.names(field) for field in Triplet.model_fields],
        "rater": [RATER_NAMES],
    }
    table = section(text_of("how-to/data.md"), "## Your own texts and pairs")
    found = {named(cells[0])[0]: cells for cells in rows(table) if not cells[0].startswith("`.")}
    assert found.keys() == known.keys()
    for column, names in known.items():
        preferred, others = found[column]
        assert {*named(preferred), *named(others)} == {n for some in names for n in some}, column
        assert set(named(preferred)) == {some[0] for some in names}, column


def test_rows_of_the_reference_have_the_fields_of_their_classes() -> None:
    table = section(text_of("reference/data.md"), "## Rows")
    classes = {row.__name__: row for row in every(Row)}
    found = {named(cells[1])[0]: named(cells[2]) for cells in rows(table)}
    assert {name: list(classes[name].model_fields) for name in found} == found


def every(row: type[Row]) -> Iterator[type[Row]]:
    yield row
    for inner in row.__subclasses__():
        yield from every(inner)


# models and types


def test_pages_that_list_the_reserved_names_list_all() -> None:
    tables = {
        "how-to/offline.md": text_of("how-to/offline.md"),
        "reference/python.md": section(text_of("reference/python.md"), "## `load`"),
    }
    for page, table in tables.items():
        first = {name for cells in rows(table) for name in named(cells[0])[:1]}
        assert set(NAMES) <= first, page


def test_the_architecture_page_draws_the_layers_that_the_linter_checks() -> None:
    page = text_of("concepts/architecture.md")
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (contract,) = settings["tool"]["importlinter"]["contracts"]
    layers = [set(re.findall(r"tertium\.(\w+)", layer)) for layer in contract["layers"]]
    drawn = [set(re.findall(r"[a-z]+", line)) for line in re.findall(r"^\d  (.+)$", page, re.M)]
    beside = set(named(re.search(r"ground floor has (.*)", page)[1]))  # type: ignore[index]
    assert [*drawn[:-1], drawn[-1] | beside] == layers
    contributing = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert re.findall(r"^\d  .+$", contributing, re.M) == re.findall(r"^\d  .+$", page, re.M)


def test_what_crosses_the_floors_has_the_fields_that_the_page_names() -> None:
    lines = section(text_of("concepts/architecture.md"), "## What crosses the floors")
    items = re.findall(r"^- (.*?)(?=^- |\Z)", lines, flags=re.M | re.S)
    assert len(items) == 4
    for item in items:
        head, _, rest = item.partition(":")
        found = [getattr(types, name, None) or getattr(tertium, name) for name in named(head)]
        fields = {field for each in found for field in (*dir(each), *each.__annotations__)}
        words = {word for word in named(rest) if word[0].islower()}
        assert words <= fields, item


# signatures and settings

SIGNATURE = re.compile(r"([A-Za-z_][\w.]*)\(([^`]*)\)")
REFERENCE = ["analysis", "data", "python", "recipes", "training"]


def documented_functions(page: str) -> Iterator[tuple[str, Any, str]]:
    """Functions and classes in the first cells of a page's tables, with what it says they take."""
    home = module = "tertium"
    for line in text_of(page).splitlines():
        if line.startswith(("#", "`tertium.")):  # a heading or a sentence may name the module
            module = next((name for name in named(line) if name.startswith("tertium")), home)
            home = module if line.startswith("# ") else home
        for code in named(line.split(" | ")[0]) if line.startswith("|") else []:
            signature = SIGNATURE.fullmatch(code.replace("\\|", "|"))
            found = signature and find(module, signature[1])
            if signature and found is not None and callable(found):
                yield signature[1], found, signature[2]


def find(module: str, name: str) -> Any:
    for full in (name, f"{module}.{name}"):
        try:
            return pkgutil.resolve_name(full)
        except (ImportError, AttributeError, ValueError):
            continue
    return None


@pytest.mark.parametrize("page", REFERENCE)
def test_functions_take_what_the_reference_says(page: str) -> None:
    checked = 0
    for name, function, text in documented_functions(f"reference/{page}.md"):
        parameters = inspect.signature(function).parameters
        stated = ast.parse(f"def f({text.replace('…', 'None')}): pass").body[0]
        assert isinstance(stated, ast.FunctionDef)
        every_one = stated.args
        positional = [argument.arg for argument in every_one.args]
        keywords = [argument.arg for argument in every_one.kwonlyargs]
        by_name = inspect.Parameter.KEYWORD_ONLY
        assert [n for n in parameters if n in positional] == positional, name
        assert {n for n in keywords if parameters[n].kind is by_name} == set(keywords), name
        pairs = [
            *zip(positional[::-1], every_one.defaults[::-1], strict=False),
            *zip(keywords, every_one.kw_defaults, strict=True),
        ]
        for argument, default in pairs:
            if isinstance(default, ast.expr) and "…" not in text:
                assert ast.literal_eval(default) == parameters[argument].default, (name, argument)
        checked += 1
    assert checked >= {"analysis": 20, "data": 5, "python": 25, "recipes": 6, "training": 5}[page]


def test_settings_of_the_server_have_the_defaults_that_page_and_help_state() -> None:
    from tertium.serve.settings import Settings

    table = section(text_of("reference/serve.md"), "## Settings")
    stated = {named(cells[0])[0]: cells[1].strip("`") for cells in rows(table)}
    assert stated.keys() == {field.name for field in fields(Settings)}
    helps = {p.name: p.help for p in COMMANDS["tertium serve"].params}
    for field in fields(Settings):
        name = field.name
        if isinstance(field.default, str | int | float):
            assert plain(stated[name]) == field.default, name
            offered = re.search(r"\(default: (.*)\)|(\w+) \(default\)", helps[name])
            assert offered and plain(offered[1] or offered[2]) == field.default, name


def plain(text: str) -> Any:
    """A default as a page writes it: 65,536, 64 KiB, 2 MiB, yes."""
    number = text.replace(",", "")
    for unit, size in {" KiB": 2**10, " MiB": 2**20}.items():
        if number.endswith(unit):
            return int(number.removesuffix(unit)) * size
    return yaml.safe_load(number)


# recipes


def test_the_page_lists_every_recipe_with_its_published_figure() -> None:
    shipped = section(text_of("reference/recipes.md"), "## Recipes that ship")
    listed: dict[str, float | None] = {}
    for cells in rows(shipped):
        names, figures = named(cells[0]), re.findall(r"\d+\.\d+", cells[-1])
        assert not set(names) & listed.keys(), names
        assert len(figures) in (0, len(names)), names
        listed |= dict(zip(names, map(float, figures or [0.0] * len(names)), strict=True))
    assert listed == {name: read_recipe(name).published or 0.0 for name in recipe_names()}


def test_the_page_lists_every_sweep() -> None:
    shipped = section(text_of("reference/recipes.md"), "## Sweeps that ship")
    assert sorted(name for cells in rows(shipped) for name in named(cells[0])) == sweep_names()


SPECS: dict[str, type[BaseModel]] = {
    "Recipe": schema.Recipe,
    "`encoder`": schema.EncoderSpec,
    "`stages[]`": schema.StageSpec,
    "`data`": schema.DataSpec,
    "`data.sources[]`": schema.SourceSpec,
    "`data.labels`": schema.LabelSpec,
    "`momentum`": schema.MomentumSpec,
    "`teacher`": schema.TeacherSpec,
    "`train`": schema.TrainSpec,
    "`select`": schema.SelectSpec,
}


@pytest.mark.parametrize("heading", SPECS)
def test_the_page_has_every_field_of_a_recipe_with_its_default(heading: str) -> None:
    table = section(text_of("reference/recipes.md"), f"### {heading}").split("\n\n| kind |")[0]
    stated = {named(cells[0])[0]: cells[1].strip("`") for cells in rows(table)}
    fields = SPECS[heading].model_fields
    assert stated.keys() == fields.keys()
    for name, field in fields.items():
        simple = isinstance(field.default, str | int | float)
        if field.is_required():
            assert stated[name] == "required" or heading == "`data.sources[]`", name
        elif simple and not stated[name].startswith(("see", "the", "empty")):
            assert yaml.safe_load(stated[name]) == field.default, name


def test_recipes_of_several_stages_are_refused_as_the_low_shot_page_says(tmp_path: Path) -> None:
    page = text_of("how-to/low-shot.md")
    (name,) = re.findall(r"A recipe with several stages, such as `([^`]+)`, is refused", page)
    with pytest.raises(Exception, match="stages: sizes and steps are compared for one"):
        run_low_shot([name], tmp_path, sizes=[100], seeds=1, steps=1)


@pytest.mark.filterwarnings("ignore:.*rows in:tertium.errors.TertiumWarning")
def test_the_log_of_a_stage_has_the_keys_that_the_page_names(
    tiny_bert: Path, tmp_path: Path
) -> None:
    stage = toy_stage(toy_pairs(tmp_path / "pairs.tsv")) | {"select": {"every": 2}}
    recipe = toy_recipe(tmp_path / "toy.yaml", tiny_bert, stage)
    folder = toy_benchmarks(tmp_path / "sets")
    train(recipe, tmp_path / "model", data=folder, evaluate_after=False, progress=False)
    log = json.loads((tmp_path / "model" / "run" / "0-own" / "finished.json").read_text())
    table = section(text_of("how-to/train.md"), "## Watch it")
    stated = {cells[0]: {"epoch", "step", *named(cells[2])} for cells in rows(table)}
    assert stated == {
        "training": set(log[0]),
        "evaluation": set(log[1]),
        "summary": set(log[-1]),
    }


# form


@pytest.mark.parametrize("page", [*PAGES, *CARDS], ids=lambda path: str(path.relative_to(ROOT)))
def test_tables_are_whole(page: Path) -> None:
    lines = FENCE.sub("", page.read_text(encoding="utf-8")).splitlines()
    for at, line in enumerate(lines):
        begins = line.startswith("|") and not (at and lines[at - 1].startswith("|"))
        if begins:
            assert at + 1 < len(lines) and RULE.match(lines[at + 1]), f"no header: {line}"
            width = len(re.findall(r"(?<!\\)\|", line))
        if line.startswith("|"):
            assert len(re.findall(r"(?<!\\)\|", line)) == width, f"cells: {line}"


HOP = re.compile(r"^\d+\. `([\w/]+\.py)`, `([\w.]+)`(?: and `([\w.]+)`)?", re.M)


def test_the_walks_of_the_architecture_page_name_what_there_is() -> None:
    page = text_of("concepts/architecture.md")
    walks = [part for part in re.split(r"^## ", page, flags=re.M) if HOP.search(part)]
    assert len(walks) == 5
    for walk in walks:
        assert 10 <= len(re.findall(r"^\d+\. ", walk, re.M)) <= 14
        for file, *names in HOP.findall(walk):
            source = (ROOT / "src" / "tertium" / file).read_text(encoding="utf-8")
            defined = {
                node.name
                for node in ast.walk(ast.parse(source))
                if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
            }
            assert {part for name in names if name for part in name.split(".")} <= defined, file


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_modules_and_files_that_a_page_names_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for name in set(re.findall(r"`(tertium\.[A-Za-z_]\w*(?:\.\w+)*)", text)) - {"tertium.json"}:
        assert find("tertium", name) is not None, name
    for name in set(re.findall(r"`((?:\w+/)+\w+\.py)`", text)):
        assert (ROOT / name).exists() or (ROOT / "src" / "tertium" / name).exists(), name
