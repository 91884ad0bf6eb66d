"""The pytest plugin: options, collection of case files, outcomes, terminal summary. Glue only.

Without --impl it adds its options and does nothing else: nothing is imported, collected or written.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from conformance.certification import Certification
    from conformance.model import Run, Verdict

_STATUS = {
    "pass": ("passed", ".", "PASSED"),
    "warn": ("warned", "w", ("WARNED", {"yellow": True})),
    "fail": ("failed", "F", "FAILED"),
    "crash": ("crashed", "C", ("CRASHED", {"red": True})),
    "broken": ("broken", "B", ("BROKEN", {"red": True})),
    "unsupported": ("unsupported", "u", ("UNSUPPORTED", {"yellow": True})),
    "not run": ("not run", "n", ("NOT RUN", {"yellow": True})),
}
_key = pytest.StashKey["Certification"]()
_no_paths = pytest.StashKey[bool]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("rmsnorm-conformance", "certify RMSNorm implementations")
    add = group.addoption
    add("--impl", action="append", default=[], metavar="MODULE:ATTRIBUTE|NAME",
        help="implementation to certify; may be given several times")  # fmt: skip
    add("--rn-profile", default="default", choices=("default", "smoke", "inference", "full"),
        help="which runs: default, smoke (is it wired at all), inference, full")  # fmt: skip
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
    if not config.option.impl or config.option.help or config.option.version or _key in config.stash:
        return
    start(config, config.option.impl, no_paths=_gave_no_paths(config))


def _gave_no_paths(config: pytest.Config) -> bool:
    return config.args_source is not pytest.Config.ArgsSource.ARGS


def start(config: pytest.Config, specs: list[str], *, no_paths: bool) -> None:
    """Make this pytest run a certification of `specs`; with no paths, of the bundled cases and only those."""
    from conformance import load
    from conformance.certification import Certification, Options

    option = config.option
    here = config.invocation_params.dir
    worker = getattr(config, "workerinput", None)
    if worker is not None:
        from conformance.distribute import threads_each

        no_paths = worker["rn_no_paths"]
    user_cases = tuple(Path(here, p) for p in option.rn_cases)
    for path in user_cases:
        if not path.exists():
            raise pytest.UsageError(f"--rn-cases={path.name}: there is no such file or folder; give a *.yaml")
    bundled = sorted(p for p in load.bundled().glob("*.yaml") if p.name != load.REQUIREMENTS_FILE)
    given = [Path(str(a).split("::")[0]) for a in config.args]
    if not no_paths:
        user_cases = (*user_cases, *_case_files(given, here, [*bundled, *user_cases]))
    options = Options(
        specs=tuple(dict.fromkeys(specs)), profile=option.rn_profile, grade=option.rn_grade,
        device=option.rn_device, timeout=option.rn_timeout, only=tuple(option.rn_only),
        case_paths=user_cases, weight_offset=option.rn_weight_offset,
        partial="" if no_paths else "paths were given", command=_command(config),
        threads=0 if worker is None else threads_each(worker),
    )  # fmt: skip
    out = Path(here, option.rn_out or f"rn-reports/{time.strftime('%Y-%m-%dT%H-%M-%S')}-{os.getpid()}")
    config.stash[_key] = certification = Certification(options, out)
    config.stash[_no_paths] = no_paths
    try:
        certification.machine  # noqa: B018 - says at once that a device is missing
    except ValueError as error:
        raise pytest.UsageError(str(error)) from None
    _cases(certification)  # a mistake in a case file stops here; during collection pytest would hide it
    if worker is not None:
        from conformance.loaded import Loaded

        for one in json.loads(worker["rn_loaded"]):
            certification.bench.know(Loaded.from_json(one))
    else:
        config.pluginmanager.register(Collector(config), "rn-collector")
    if no_paths:
        config.args = [str(p) for p in bundled]
        for folder in user_cases:
            config.args += [str(p) for p in (sorted(folder.glob("*.yaml")) if folder.is_dir() else [folder])]
        _quieten(config)


def _case_files(given: list[Path], here: Path, known: list[Path]) -> list[Path]:
    """The case files among the paths of the command line that are not loaded anyway."""
    resolved = {p.resolve() for p in known}
    found = []
    for path in (Path(here, p) for p in given):
        files = sorted(path.rglob("*.yaml")) if path.is_dir() else [path]
        found += [f for f in files if f.suffix == ".yaml" and f.resolve() not in resolved and _holds_cases(f)]
    return found


def _holds_cases(path: Path) -> bool:
    """Whether a YAML file means to be a case file: it says `schema:` and `cases:` at the top level."""
    if not path.is_file():
        return False
    lines = path.read_text(errors="replace").splitlines()
    return all(any(line.startswith(key) for line in lines) for key in ("schema:", "cases:"))


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


def _command(config: pytest.Config) -> tuple[str, ...]:
    """The suite's own options of the command line, without the paths they may name."""
    option = config.option
    words = [f"--impl={spec}" for spec in option.impl] + [f"--rn-only={glob}" for glob in option.rn_only]
    for name, default in (("rn_profile", "default"), ("rn_grade", "strict"), ("rn_device", "auto"),
                          ("rn_weight_offset", None)):  # fmt: skip
        value = getattr(option, name)
        if value != default:
            words.append(f"--{name.replace('_', '-')}={value}")
    return tuple(words)


def pytest_report_header(config: pytest.Config) -> list[str]:
    certification = config.stash.get(_key, None)
    if certification is None:
        return []
    from conformance.lines import heading

    return heading(certification.options, certification.machine)


# --- collection ----------------------------------------------------------------------------------------


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    certification = parent.config.stash.get(_key, None)
    if certification is None or file_path.suffix != ".yaml":
        return None
    if not any(case.file == file_path.name for case in _cases(certification)):
        return None
    return CaseFile.from_parent(parent, path=file_path, nodeid=f"cases/{file_path.name}")


def _cases(certification: Certification) -> list[Any]:
    from conformance.errors import BadCase

    try:
        return certification.cases
    except BadCase as error:
        raise pytest.UsageError(str(error)) from None


class CaseFile(pytest.File):
    """One case file: an item for each implementation and run."""

    def collect(self) -> Iterator[pytest.Item]:
        certification = self.config.stash[_key]
        certification.load_all()
        for spec in certification.options.specs:
            name = certification.name(spec)
            for run in certification.runs(spec):
                if run.file == self.path.name:
                    local = run.id.split("/", 1)[1]
                    yield CaseItem.from_parent(self, name=f"{local}@{name}", spec=spec, run=run)


class MissingItem(pytest.Item):
    """Stands for an implementation that cannot be called: it fails, and says why."""

    def __init__(self, *, spec: str, **rest: Any) -> None:
        super().__init__(**rest)
        self.spec = spec

    def runtest(self) -> None:
        loaded = self.config.stash[_key].bench.load(self.spec)
        raise Missing("\n".join(filter(None, [f"{self.spec}: {loaded.message}", loaded.hint])))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> str:
        return str(excinfo.value)

    def reportinfo(self) -> tuple[Path, None, str]:
        return self.path, None, f"load {self.spec}"


class Missing(Exception):
    """An implementation cannot be called."""


class CaseItem(pytest.Item):
    """One run for one implementation."""

    def __init__(self, *, spec: str, run: Run, **rest: Any) -> None:
        super().__init__(**rest)
        self.spec, self.asked = spec, run
        self.verdict: Verdict | None = None

    def runtest(self) -> None:
        self.verdict = self.config.stash[_key].bench.verdict(self.spec, self.asked)
        if self.verdict.verdict in ("fail", "crash", "broken"):
            raise Failed(self.verdict)
        if self.verdict.verdict in ("unsupported", "not run"):
            pytest.skip(self.verdict.reason)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        if isinstance(excinfo.value, Failed) and self.verdict is not None:
            from conformance.lines import failure

            return failure(self.verdict, self.spec)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, None, str]:
        return self.path, None, self.name


class Failed(Exception):
    """A run failed; its verdict says why."""


def pytest_collection_modifyitems(
    session: pytest.Session, config: pytest.Config, items: list[pytest.Item]
) -> None:
    certification = config.stash.get(_key, None)
    if certification is None:
        return
    order = {spec: i for i, spec in enumerate(certification.options.specs)}
    missing = [s for s in order if certification.bench.load(s).implementation is None]
    own = [i for i in items if isinstance(i, CaseItem)]
    own.sort(key=lambda item: order[item.spec])  # stable: a worker is started once for each implementation
    others = [i for i in items if not isinstance(i, CaseItem)]
    stand_ins = [
        MissingItem.from_parent(session, name=f"load@{s}", nodeid=f"load@{s}", spec=s) for s in missing
    ]
    items[:] = [*stand_ins, *own, *others]


# --- outcomes ------------------------------------------------------------------------------------------


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    outcome = yield
    if isinstance(item, CaseItem) and call.when == "call" and item.verdict is not None:
        from conformance.results import as_json

        outcome.get_result().rn_verdict = {"type": "verdict", **as_json(item.verdict)}


def pytest_report_teststatus(report: Any) -> Any:
    verdict = getattr(report, "rn_verdict", None)
    return _STATUS[verdict["verdict"]] if verdict is not None and report.when == "call" else None


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

            self.config.stash[_key].add(verdict_from_json(data))

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        if exitstatus in (pytest.ExitCode.USAGE_ERROR, pytest.ExitCode.INTERNAL_ERROR):
            return
        if self.config.option.collectonly:
            return
        certification = self.config.stash[_key]
        stopped = "stopped by the user" if exitstatus == pytest.ExitCode.INTERRUPTED else ""
        if session.shouldfail or session.shouldstop:
            stopped = stopped or "stopped early"
        self.result = certification.finish(stopped)
        from conformance.page import write_page

        self.page = write_page([self.result], certification.out / "report.html")
        if exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED):
            others = session.testsfailed - self._own_failures
            session.exitstatus = max(certification.exit_code(), 1 if others else 0)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if not hasattr(self, "result"):
            return
        from conformance import summary
        from conformance.showing import visible

        certification = self.config.stash[_key]
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
    if _key in node.config.stash:
        loaded = [one.to_json() for one in node.config.stash[_key].load_all()]
        node.workerinput["rn_no_paths"] = node.config.stash[_no_paths]
        node.workerinput["rn_loaded"] = json.dumps(loaded)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """pytest-xdist: keep an implementation's runs together, unless the user chose a way with --dist."""
    if _key not in config.stash or config.getvalue("dist") != "load":
        return None
    from conformance.distribute import ByImplementation

    return ByImplementation(config, log, len(config.stash[_key].options.specs))


def pytest_unconfigure(config: pytest.Config) -> None:
    certification = config.stash.get(_key, None)
    if certification is not None:
        certification.close()
