"""An implementation as a worker described it: what every process of a certification knows of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from conformance.calling.descriptions import from_description
from conformance.model import Implementation


@dataclass(frozen=True)
class Loaded:
    """What is known of one --impl.

    description: JSON of the implementation, None where there is none; then `error` names the kind of reason.
    error: NotInstalled, NoSuchImplementation, NotRecognised, ImportFailed, broken, crash or hang. drift: what
    importing it changed (conformance.processes.watch). probe: whether the trial call was made, and is to be
    made again.
    """

    spec: str
    description: Mapping[str, Any] | None = None
    error: str = ""
    message: str = ""
    hint: str = ""
    drift: tuple[str, ...] = ()
    probe: bool = True

    @cached_property
    def implementation(self) -> Implementation | None:
        return None if self.description is None else from_description(dict(self.description))

    @property
    def name(self) -> str:
        """The name it goes by in the report: its own, or what --impl was given."""
        return self.spec if self.implementation is None else self.implementation.name

    @classmethod
    def from_reply(cls, spec: str, probe: bool, reply: Mapping[str, Any]) -> Loaded:
        """What a worker answered to a load request."""
        if "broken" in reply:
            return cls(spec, None, "broken", reply["broken"], reply["trace"])
        if "error" in reply:
            return cls(spec, None, reply["error"], reply["message"], reply["hint"])
        return cls(spec, reply["description"], drift=tuple(reply["drift"]), probe=probe)

    def to_json(self) -> dict[str, Any]:
        return {
            "spec": self.spec, "description": self.description, "error": self.error,
            "message": self.message, "hint": self.hint, "drift": list(self.drift), "probe": self.probe,
        }  # fmt: skip

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Loaded:
        return cls(**{**data, "drift": tuple(data["drift"])})
