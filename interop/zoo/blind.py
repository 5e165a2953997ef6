"""Which entries of a report's list of what it could not have shown speak of which fault.

A report that finds nothing is honest about a fault if it lists it under `blind`: by its
name, for the steps since which the fault acts. Names are given by their beginnings.
"""

import re

SCALE = "noise scale 1.2 times"
NAMES = {
    "R01": "masks that", "R02": "masks that", "R14": "masks that", "R18": "masks that",
    "R05": SCALE, "R06": SCALE, "R06b": SCALE, "R06c": "noise scale 1 per cent", "R33": SCALE,
    "R04": "another noise stream", "R19": "another noise stream", "R24": "another noise stream", "R37": "another noise stream", "R38": "another noise stream",
    "R03": "another noise stream",
    "R07": "no noise", "R08": "uniform noise", "R09": "Laplace noise", "R10": "a sum of four uniform",
    "R12": "Box-Muller with the root after", "R15": "draws in half", "R15b": "draws in half",
    "R17": "noise with a mean of a tenth", "R25": "scale of the noise from 0.5 to 1.5", "R26": "one channel without noise",
    "R27": "one realization without noise", "R29": "draws cut off at 2", "R30": "draws of few levels",
    "R34": "errors of the operator", "R35": "errors of the operator", "R36": "one step without noise",
    "P46": "convolution inputs truncated to 20 bits",
}


def listed(subject, entries, first_step):
    """The entry that speaks of a fault which acts since that step; None if none does."""
    name = NAMES.get(subject)
    for e in entries or []:
        if not name or not e.startswith(name):
            continue
        late = re.search(r", if it begins at step (\d+) or later$", e)
        if not late or first_step is not None and first_step >= int(late[1]):
            return e
    return None
