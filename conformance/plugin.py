"""The pytest plugin: options, hooks, outcomes, terminal summary. Glue only.

Without --impl it adds its options and does nothing else: nothing is imported, collected or written.
"""

from __future__ import annotations

import json
import os
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from conformance.collection import CERTIFICATION, CaseItem, arrange, cases_of, collect_file
from conformance.model import PROFILES

if TYPE_CHECKING:
    from pluggy import Result

_STATUS = {
    "pass": ("passed", ".", "PASSED"),
    "warn": ("warned", "w", ("WARNED", {"yellow": True})),
    "fail": ("failed", "F", "FAILED"),
    "crash": ("crashed", "C", ("CRASHED", {"red": True})),
    "broken": ("broken", "B", ("BROKEN", {"red": True})),
    "unsupported": ("unsupported", "u", ("UNSUPPORTED", {"yellow": True})),
    "not run": ("not run", "n", ("NOT RUN", {"yellow": True})),
}
_CONCLUSIVE = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED)
_no_paths = pytest.StashKey[bool]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("rmsnorm-conformance", "certify RMSNorm implementations")
    add = group.addoption
    add("--impl", action="append", default=[], metavar="MODULE:ATTRIBUTE|NAME",
        help="implementation to certify; may be given several times")  # fmt: skip
    add("--rn-profile", default="default", choices=("default", *PROFILES),
        help="which runs: default (inference, and training where there are gradients), smoke (is it wired at "
        "all), inference, training, full")  # fmt: skip
    add("--rn-grade", default="strict", choices=("strict", "base"),
        help="strict: derived error bounds; base: the specification's allclose")  # fmt: skip
    add("--rn-cases", action="append", default=[], metavar="PATH",
        help="case file or folder to add to the bundled ones; may be given several times")  # fmt: skip
    add("--rn-only", action="append", default=[], metavar="GLOB",
        help="only the runs whose id matches; * and ? are special, [ ] are not")  # fmt: skip
    add("--rn-device", default="auto", choices=("auto", "cpu", "cuda"), help="cuda stands for ROCm too")
    add("--rn-out", default=None, metavar="DIR", help="results go here (rn-reports/<time>)")
    add("--rn-timeout", type=float, default=120.0, metavar="SECONDS", help="for one run")
    add("--rn-weight-offset", type=float, default=None, metavar="NUMBER",
        help="the implementation multiplies by NUMBER + weight")  # fmt: skip


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    if not config.option.impl or config.option.help or config.option.version or CERTIFICATION in config.stash:
        return
    start(config, config.option.impl, no_paths=_gave_no_paths(config))


def _gave_no_paths(config: pytest.Config) -> bool:
    return config.args_source is not pytest.Config.ArgsSource.ARGS


def start(config: pytest.Config, specs: list[str], *, no_paths: bool) -> None:
    """Make this pytest run a certification of `specs`; with no paths, of the bundled cases and only those."""
    from conformance import commandline
    from conformance.certification import Certification

    worker = getattr(config, "workerinput", None)
    if worker is not None:
        no_paths = worker["rn_no_paths"]
    options = commandline.read_options(config, specs, no_paths=no_paths)
    config.stash[CERTIFICATION] = certification = Certification(options, commandline.out_folder(config))
    config.stash[_no_paths] = no_paths
    try:
        certification.machine  # noqa: B018 - says at once that a device is missing
    except ValueError as error:
        raise pytest.UsageError(str(error)) from None
    cases_of(certification)  # a mistake in a case file stops here; during collection pytest would hide it
    if worker is not None:
        from conformance.loaded import Loaded

        for one in json.loads(worker["rn_loaded"]):
            certification.bench.know(Loaded.from_json(one))
    else:
        config.pluginmanager.register(Collector(config), "rn-collector")
    if no_paths:
        config.args = commandline.case_files(options)
        _quieten(config)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Leave the user's own last-failed records as they are; their keepers come after our configure."""
    if not session.config.stash.get(_no_paths, False):
        return
    manager = session.config.pluginmanager
    for name in ("lfplugin", "nfplugin", "stepwiseplugin"):
        plugin = manager.get_plugin(name)
        if plugin is not None:
            manager.unregister(plugin)


def _quieten(config: pytest.Config) -> None:
    """Leave the telling to our own summary."""
    if config.option.tbstyle == "auto":
        config.option.tbstyle = "no"
        config.option.reportchars = "N"


def pytest_report_header(config: pytest.Config) -> list[str]:
    certification = config.stash.get(CERTIFICATION, None)
    if certification is None:
        return []
    from conformance.reporting.lines import heading

    return heading(certification.options, certification.machine)


# --- collection ----------------------------------------------------------------------------------------


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    certification = parent.config.stash.get(CERTIFICATION, None)
    return None if certification is None else collect_file(certification, file_path, parent)


def pytest_collection_modifyitems(
    session: pytest.Session, config: pytest.Config, items: list[pytest.Item]
) -> None:
    certification = config.stash.get(CERTIFICATION, None)
    if certification is not None:
        arrange(certification, session, items)


# --- outcomes ------------------------------------------------------------------------------------------


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, Result[Any], None]:
    outcome = yield
    if isinstance(item, CaseItem) and call.when == "call" and item.verdict is not None:
        from conformance.reporting.results import as_json

        outcome.get_result().rn_verdict = {"type": "verdict", **as_json(item.verdict)}


def pytest_report_teststatus(report: Any) -> Any:
    verdict = getattr(report, "rn_verdict", None)
    return _STATUS[verdict["verdict"]] if verdict is not None and report.when == "call" else None


def _cannot_write(error: OSError) -> str:
    name = Path(error.filename).name if error.filename else "the results"
    return f"cannot write {name}: {error.strerror or error}; choose another folder with --rn-out=DIR"


class Collector:
    """Lives on the process that concludes: takes verdicts as reports come in."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self._own_failures = 0

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        data = getattr(report, "rn_verdict", None)
        self._own_failures += data is not None and report.failed
        if data is not None and report.when == "call":
            from conformance.certification import verdict_from_json

            try:
                self.config.stash[CERTIFICATION].add(verdict_from_json(data))
            except OSError as error:
                pytest.exit(_cannot_write(error), returncode=pytest.ExitCode.USAGE_ERROR)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        if exitstatus in (pytest.ExitCode.USAGE_ERROR, pytest.ExitCode.INTERNAL_ERROR):
            return
        if self.config.option.collectonly:
            return
        certification = self.config.stash[CERTIFICATION]
        stopped = "stopped by the user" if exitstatus == pytest.ExitCode.INTERRUPTED else ""
        if session.shouldfail or session.shouldstop:
            stopped = stopped or "stopped early"
        from conformance.reporting.page import write_page

        try:
            result = certification.finish(stopped)
            self.page = write_page([result], certification.out / "report.html")
        except OSError as error:
            session.exitstatus = pytest.ExitCode.USAGE_ERROR
            self.config.get_terminal_writer().line(_cannot_write(error), red=True)
            return
        self.result = result
        if exitstatus in _CONCLUSIVE:
            others = session.testsfailed - self._own_failures
            session.exitstatus = max(certification.exit_code(), 1 if others else 0)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if not hasattr(self, "result"):
            return
        from conformance.reporting import summary
        from conformance.reporting.showing import visible

        certification = self.config.stash[CERTIFICATION]
        here = self.config.invocation_params.dir
        terminalreporter.section("RMSNorm conformance")
        text = summary.terminal([self.result], color=terminalreporter.hasmarkup)
        terminalreporter.write_line(text)
        for spec in certification.options.specs:
            loaded = certification.bench.load(spec)
            if loaded.implementation is None and loaded.hint:
                terminalreporter.write_line(f"\nHow to call {visible(spec)}:")
                for line in loaded.hint.splitlines():
                    terminalreporter.write_line(f"  {visible(line)}")
        terminalreporter.write_line(f"Page: {os.path.relpath(self.page, here)}")


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """pytest-xdist: tell a worker process what its own command line does not show."""
    if CERTIFICATION in node.config.stash:
        loaded = [one.to_json() for one in node.config.stash[CERTIFICATION].load_all()]
        node.workerinput["rn_no_paths"] = node.config.stash[_no_paths]
        node.workerinput["rn_loaded"] = json.dumps(loaded)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """pytest-xdist: keep an implementation's runs together, unless the user chose a way with --dist."""
    if CERTIFICATION not in config.stash or config.getvalue("dist") != "load":
        return None
    from conformance.collection import node_ids
    from conformance.distribute import ByImplementation, compile_key

    certification = config.stash[CERTIFICATION]
    keys = {node: compile_key(run) for node, _, run in node_ids(certification)}
    return ByImplementation(config, log, len(certification.options.specs), keys)


def pytest_unconfigure(config: pytest.Config) -> None:
    certification = config.stash.get(CERTIFICATION, None)
    if certification is not None:
        certification.close()
