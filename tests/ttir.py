"""Reads Triton's TTIR text far enough to ask where a value comes from."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Operation:
    """One line: `%result = name %operand, ... : type`; result is "" for a store."""

    result: str
    name: str
    operands: tuple[str, ...]
    text: str


class Kernel:
    """The operations of one kernel in order, and what each value was computed from."""

    def __init__(self, text: str, arguments: list[str]) -> None:
        body = re.sub(r" loc\((?:[^()]|\([^()]*\))*\)", "", text)
        for i, name in enumerate(arguments):  # older versions number the arguments
            body = re.sub(rf"%arg{i}\b", f"%{name}", body)
        self.operations = [op for line in body.splitlines() if (op := _parse(line)) is not None]
        # Names are reused in the two loop bodies, so a definition is looked up from its use backwards.
        self._defined = {i: op.result for i, op in enumerate(self.operations) if op.result}

    def all(self, name: str) -> list[Operation]:
        """Return every operation of this name."""
        return [op for op in self.operations if op.name == name]

    def definition(self, value: str, user: Operation) -> Operation | None:
        """Return the operation that gave value to user; None for an argument or a loop variable."""
        at = next(i for i, op in enumerate(self.operations) if op is user)
        for i in range(at - 1, -1, -1):
            if self._defined.get(i) == value:
                return self.operations[i]
        return None

    def sources(self, value: str, user: Operation) -> set[str]:
        """Return the arguments, loop variables and operation names that value was computed from."""
        found: set[str] = set()
        waiting = [(value, user)]
        while waiting:
            name, at = waiting.pop()
            operation = self.definition(name, at)
            if operation is None:
                found.add(name)
                continue
            found.add(operation.name)
            waiting += [(operand, operation) for operand in operation.operands]
        return found


def _parse(line: str) -> Operation | None:
    match = re.match(r'\s*(?:(%[\w]+)(?:#\d+)?(?::\d+)? = )?"?([a-z]+\.[\w.]+)"?(.*)', line)
    if match is None:
        return None
    result, name, rest = match.groups()
    operands = tuple(re.findall(r"%\w+", rest.split(" : ")[0]))
    return Operation(result or "", name, operands, line.strip())
