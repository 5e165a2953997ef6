"""A dataset of sampled operators, read as a sequence of rollouts.

    python dataset.py        # needs numpy and refrun
"""

import tempfile
from pathlib import Path

import refrun

with tempfile.TemporaryDirectory() as folder:
    data = refrun.make_dataset(Path(__file__).with_name("spec.yaml"), Path(folder) / "set")
    for i in range(len(data)):
        states = data[i]["states"]  # [realization, time, channel, y, x]
        print(i, states.shape, "std at the end %.3f" % states[:, -1].std(), data.parameters(i)["operator"]["activation"])
