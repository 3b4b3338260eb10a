"""Print pyproject.toml's lower bounds as exact versions, for pip's --constraint.

python tools/lowest.py > lowest.txt
"""

import tomllib
from itertools import chain
from pathlib import Path

from packaging.requirements import Requirement

project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
listed = chain(project["dependencies"], *project["optional-dependencies"].values())
for requirement in map(Requirement, sorted(set(listed))):
    marker = f" ; {requirement.marker}" if requirement.marker else ""
    for bound in requirement.specifier:
        if bound.operator in (">=", "=="):
            print(f"{requirement.name}=={bound.version}{marker}")
