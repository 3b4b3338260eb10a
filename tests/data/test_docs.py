import re
from pathlib import Path

import pytest

from tertium.data import DATASETS, KINDS, Row

DOCS = Path(__file__).parents[2] / "docs"
HOW_TO = (DOCS / "how-to" / "data.md").read_text()
REFERENCE = (DOCS / "reference" / "data.md").read_text()


@pytest.mark.parametrize("snippet", re.findall(r"```python\n(.*?)```", HOW_TO, flags=re.DOTALL))
def test_every_snippet_runs(snippet: str, capsys: pytest.CaptureFixture[str]) -> None:
    exec(snippet, {})
    assert capsys.readouterr().out


@pytest.mark.parametrize("name", DATASETS)
def test_every_set_is_listed_with_its_rows_and_source(name: str) -> None:
    (line,) = [line for line in REFERENCE.splitlines() if line.startswith(f"| `{name}` ")]
    for split, rows in DATASETS[name].rows.items():
        assert f"{split} {rows:,}" in line
    if "of the same" not in line:
        for source in DATASETS[name].hub:
            assert f"`{source.repo}`" in line


@pytest.mark.parametrize(("kind", "row_type"), KINDS.items())
def test_every_kind_and_every_name_of_a_column_is_listed(kind: str, row_type: type[Row]) -> None:
    assert f"| `{kind}` | `{row_type.__name__}` |" in REFERENCE
    for field in row_type.model_fields:
        for name in row_type.names(field):
            assert f"`{name}`" in HOW_TO
