"""Lets a checkout work without being installed; a bare `pytest` here certifies the bundled kernels."""

import pytest

pytest_plugins = ["conformance.plugin"]


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    if config.args_source is not pytest.Config.ArgsSource.ARGS and not config.option.impl:
        config.option.impl = ["reference"]
