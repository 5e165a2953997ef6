"""Two faults that make one trajectory: then either's name is right.

That is not taken from a list but shown. What a name says is done to the states of a
correct device, one step at a time from the recorded state before, and the result must
be the recorded state in every bit, at every step that is not right.
"""

import itertools

import numpy as np


def others(y):
    """y with its realizations in any other order."""
    return (y[list(p)] for p in itertools.permutations(range(len(y))))


def channels(y):
    return (y[:, list(p)] for p in itertools.permutations(range(y.shape[1])))


def patched(y, got, source):
    """y, where what is recorded has the bits of the source instead."""
    return [np.where(bits(got) == bits(source), source, y)]


def still(x, y):
    """y, but one realization stays as it is in x."""
    for m in range(len(y)):
        z = y.copy()
        z[m] = x[m]
        yield z


# What a name says: from the state before, the right next state and the recorded one,
# what may be recorded if the name is right.
MEANINGS = (
    ("channels in another order", lambda x, y, got: channels(y)),
    ("channels in reverse order", lambda x, y, got: channels(y)),
    ("realizations in each other's place", lambda x, y, got: others(y)),
    ("realizations change places", lambda x, y, got: others(y)),
    ("realization stands still", lambda x, y, got: still(x, y)),
    ("step not made", lambda x, y, got: [x]),
    ("not written", lambda x, y, got: patched(y, got, np.zeros_like(y)) + patched(y, got, x)),
    ("part of the state is stale", lambda x, y, got: patched(y, got, x)),
)


def bits(v):
    return np.asarray(v, np.float32).view(np.uint32)


def same(made, diagnosis):
    """Whether the diagnosis, too, explains every bit of a made case."""
    says = [f for words, f in MEANINGS if words in diagnosis]
    plain, acted = made.device.other(), False
    with np.errstate(all="ignore"):
        for t in range(1, made.states.shape[1]):
            x, got = made.states[:, t - 1], made.states[:, t]
            y = plain.step(x, tuple(d[t - 1] for d in made.tape), t)
            if np.array_equal(bits(y), bits(got)):
                continue
            acted = True
            if not any(np.array_equal(bits(z), bits(got)) for f in says for z in f(x, y, got)):
                return False
    return acted
