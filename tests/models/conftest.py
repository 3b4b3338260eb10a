from pathlib import Path

import pytest

import tertium
from tertium.models import Encoder


@pytest.fixture(scope="session")
def bert(tiny_bert: Path) -> Encoder:
    return tertium.load(tiny_bert, engine="torch")


@pytest.fixture(scope="session")
def roberta(tiny_roberta: Path) -> Encoder:
    return tertium.load(tiny_roberta, engine="torch")


@pytest.fixture(scope="session", params=["bert", "roberta"])
def tiny(request: pytest.FixtureRequest) -> Encoder:
    """Each of the two architectures in turn."""
    encoder: Encoder = request.getfixturevalue(request.param)
    return encoder


@pytest.fixture(scope="session")
def default_encoder() -> Encoder:
    """The real built-in model; slow to load, so shared."""
    return tertium.load(engine="torch")
