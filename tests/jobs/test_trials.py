import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

pytestmark = [
    pytest.mark.attack,
    pytest.mark.long,
    pytest.mark.integration,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="the trials fork"),
]


def test_a_job_killed_at_any_moment_ends_the_same_byte_for_byte(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "tests.jobs.trials", tmp_path],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    assert found["shards"] == 30 and len(found["trials"]) == 10
    assert [trial["same"] for trial in found["trials"]] == [True] * 10
    midway = [left for trial in found["trials"] for left in trial["left"] if 0 < left < 30]
    assert len(midway) > 5  # the kills came at moments that matter
