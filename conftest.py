"""Lets a checkout work without being installed; a bare `pytest` here certifies the bundled kernels.

The plugin is registered in a hook and not by `pytest_plugins`, which pytest refuses in a conftest.py that it
meets late: this one, where the checkout is used from another folder and the cases are collected from here.
"""

import pytest

from conformance import plugin


def pytest_addoption(pluginmanager: pytest.PytestPluginManager) -> None:
    if not pluginmanager.has_plugin(plugin.__name__):
        pluginmanager.register(plugin, plugin.__name__)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    if config.args_source is not pytest.Config.ArgsSource.ARGS and not config.option.impl:
        config.option.impl = ["reference"]
        plugin.pytest_configure(config)  # it may have been asked before this file was
