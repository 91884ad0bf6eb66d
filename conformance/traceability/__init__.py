"""From every line of the specification to the wrong kernel that would be caught for it, and back.

    specification.yaml    the lines of both texts, and the requirements that stand for each
    specification.py      reads them
    kills.jsonl           mutants with the runs that caught them and what was found there; made by `record.py`
    kills.py              reads it, and says what would be named if a check or a requirement did not exist
    exceptions.yaml       the checks and requirements that no recorded mutant depends on, each with its reason
    disabling.py          finds them: disables each in turn
    links.py              requirement <-> specification lines, public reports, cases, checks, mutants
    table.py              the same as Markdown: docs/traceability.md

Only `record` imports torch.
"""
