"""The hook by which a package declares its own implementations to the suite.

A declaration is needed only where the signature does not tell the whole of a call: a parameter of another
meaning, an argument that is overwritten although every output comes back, a rounding convention to be held
to. This module is complete; saved as `mypkg.py`, it makes `pytest --impl=mypkg:norm` use the declared call:

    from conformance.hookspecs import hookimpl
    from conformance.model import Call, Implementation, Parameter


    def norm(activations, scale, tiny):
        statistic = activations.float().square().mean(-1, keepdim=True)
        rrms = (statistic + tiny).rsqrt()
        return (activations.float() * rrms * scale.float()).to(activations.dtype)


    @hookimpl
    def conformance_implementations():
        parameters = (
            Parameter("activations", "x"),
            Parameter("scale", "weight"),
            Parameter("tiny", "eps"),
        )
        return [Implementation(name="norm", calls={"none": Call(norm, parameters)})]

A package that is installed can also be named without its module: list the module that holds the hook under
the entry-point group `rmsnorm_conformance`, and `pytest --impl=norm` finds it.

Gradients are asked through autograd where an output requires one. `Call.differentiable` says beforehand that
none ever does, or that they do; `Call.backward` declares a backward function that is called by itself, with
what the forward returned; `Call.consumes_dy` that the gradients that arrive may be overwritten.
"""

from __future__ import annotations

import pluggy

from conformance.model import Implementation

PROJECT = "rmsnorm_conformance"
"""The pluggy project name, and the entry-point group."""

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def conformance_implementations() -> list[Implementation]:  # type: ignore[empty-body]
    """Return the implementations that this module declares.

    Called in a worker process only, after the module was imported, so a vendor may be imported here. Raise
    `conformance.errors.NotInstalled` where the package that they need is absent.
    """
