"""How much a user's cases can see: which mutants they miss, and which property of their inputs hides each.

    cases → runs → every mutant that they ask (measure) → survivors
    survivor × property (properties): one thing changed in a run; does the mutant fail now?
    → which property of the inputs hides which mutants (tell)

Nothing is guessed from names: a property hides a mutant where its change alone makes the mutant fail.
"""
