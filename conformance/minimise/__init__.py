"""From a failing run to the smallest one that fails the same requirement, as a case file of its own.

    asked      a result file and a run id to the run, the implementation and how it was judged
    sizes      fewer rows, narrower rows: how the smallest failing size is looked for
    simpler    fewer features: layouts, dtypes, gradients, scenario, arguments
    fills      plainer values, as far as the accuracy rule holds for them
    shrink     the loop over all of these, until nothing shrinks or the time is up
    confirm    the result once more in a fresh process, and put to a right implementation
    write      a run as the text of a case file
    told       what became smaller, in words

Only `confirm` imports torch, and the implementation runs in workers alone.
"""
