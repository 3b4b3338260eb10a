"""The notebooks run from top to bottom, as a reader would run them."""

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))


@pytest.mark.integration
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of the kernel's own packages
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs(notebook: Path) -> None:
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed: tertium[dev]")
    nbformat = pytest.importorskip("nbformat")
    read = nbformat.read(notebook, as_version=4)
    assert not any(cell.get("outputs") for cell in read.cells)  # committed without results
    where = {"metadata": {"path": str(notebook.parent)}}
    ran = nbclient.NotebookClient(read, timeout=300, kernel_name="python3", resources=where)
    ran.execute()
    shown = [output for cell in read.cells for output in cell.get("outputs", [])]
    assert shown
    if notebook.stem == "decide":  # an explanation draws itself
        assert any("text/html" in output.get("data", {}) for output in shown)
