"""Check what single elements cannot show: a signed bias over the tensor, and a gain shared by a row."""

from conformance.model import Finding
from conformance.seen import Seen

NAME = "statistics"
REQUIREMENTS = ("ACCURACY-BIAS", "ACCURACY-GAIN")


def applies(seen: Seen) -> bool:
    return seen.returned and seen.run.fault is None and seen.run.n_rows > 0 and seen.grade == "strict"


def check(seen: Seen) -> list[Finding]:
    findings = []
    for view in seen.views:
        found = view.explanation
        if found is None or not found.conventions or not view.numbers or not view.numbers["count"]:
            continue
        numbers = view.numbers
        if not numbers["bias_ok"]:
            message = (
                f"y is biased by {numbers['bias']:+.4f} ULP on average over {numbers['count']:.0f} elements "
                f"({numbers['bias_z']:.1f} standard deviations of its rounding noise; 8 are allowed)"
            )
            findings.append(Finding(NAME, "ACCURACY-BIAS", "fail", message))
        if not numbers["gain_ok"]:
            message = (
                f"a row of y is scaled by 1 {numbers['gain']:+.2e} as a whole ({numbers['gain_z']:.1f} "
                "standard deviations of its rounding noise; 8 and the statistic's own error are allowed)"
            )
            findings.append(Finding(NAME, "ACCURACY-GAIN", "fail", message))
        if findings:
            break
    return findings
