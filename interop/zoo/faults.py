"""All faults: those of the four families, in one catalogue."""

import faults_precision  # noqa: F401 (each enters its faults)
import faults_logic  # noqa: F401
import faults_random  # noqa: F401
import faults_rollout  # noqa: F401
from catalogue import ALL, CATALOGUE, CONVS, FAMILIES, HALF, Bound  # noqa: F401


def load():
    """The whole catalogue."""
    return CATALOGUE
