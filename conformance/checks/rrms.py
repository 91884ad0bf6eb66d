"""Check an rrms that the implementation returns: one fp32 number a row, as accurate as fp32 can be."""

from conformance.model import Finding
from conformance.numerics import accuracy
from conformance.seen import Seen, to_float64

NAME = "rrms"
REQUIREMENTS = ("RRMS-SAVED",)


def applies(seen: Seen) -> bool:
    return seen.returned and "rrms" in seen.call.returns and seen.run.fault is None and seen.run.n_rows > 0


def check(seen: Seen) -> list[Finding]:
    view = [v for v in seen.views if v.has_forward][-1]
    output = view.output("rrms")
    if output is None:
        return [Finding(NAME, "RRMS-SAVED", "fail", "rrms is declared as returned, but did not come back")]
    if output.dtype != "float32":
        return [Finding(NAME, "RRMS-SAVED", "fail", f"rrms.dtype is {output.dtype}, but should be float32")]
    if output.bits.size != view.n_rows:
        message = f"rrms has {output.bits.size} elements, but should have one a row, {view.n_rows}"
        return [Finding(NAME, "RRMS-SAVED", "fail", message)]
    values = to_float64(output.bits, output.dtype, view.device).reshape(-1)
    verdict = accuracy.rrms_ok(view.problem, values)
    if verdict.ok:
        return []
    first = verdict.wrong[0]
    message = (
        f"rrms is not fp32-accurate: rrms[{first.index[0]}] is {first.actual:.9g}, but should be "
        f"{first.expected:.9g} ({first.low:.9g} to {first.high:.9g}); "
        f"{verdict.count} of {verdict.compared} rows"
    )
    return [Finding(NAME, "RRMS-SAVED", "fail", message, first.where("rrms"))]
