"""Triton's interpreter in a worker without a GPU: its bf16 repaired, its launches counted."""

from __future__ import annotations

from typing import Any


class Interpreter:
    """Repairs the interpreter before the implementation is imported; `problem` says why it could not."""

    def __init__(self) -> None:
        self.problem = ""
        self._launches = 0
        self._told = 0
        try:
            from triton.runtime import interpreter as stock
        except ImportError:
            return  # no Triton: nothing can be interpreted
        from conformance.processes.interpreter import InterpreterUnsupported, repair

        try:
            repair()
        except InterpreterUnsupported as error:
            self.problem = str(error)
        self._count(stock.GridExecutor)

    def _count(self, executor: Any) -> None:
        launch = executor.__call__

        def counted(grid_executor: Any, *args: Any, **kwargs: Any) -> Any:
            self._launches += 1
            return launch(grid_executor, *args, **kwargs)

        executor.__call__ = counted

    def launched(self) -> bool:
        """Whether a kernel was interpreted since the last question."""
        before, self._told = self._told, self._launches
        return self._launches > before
