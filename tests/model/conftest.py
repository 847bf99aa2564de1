"""How many histories are played."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--model-examples",
        type=int,
        default=None,
        help="how many histories the model plays (pytest tests/model --model-examples=20000)",
    )
    parser.addoption("--model-seed", type=int, default=None, help="which histories the model plays")
