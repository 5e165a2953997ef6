"""Measures what `refrun check` catches: runs it on the zoo and prints the power table.

  ./run.sh --binary refrun --set tuning --modes float16 --evidence layers --jobs 2
  ./run.sh --binary refrun --set reporting --noise both --evidence trajectory,layers,probes --json report.json
  ./run.sh --correct-only --no-baselines --seeds 3000-3049     # false alarms alone, in the least time
  ./run.sh --baselines-only --limit 200

Results are cached under --cache, by case, device version and binary; a run that was
stopped goes on where it was. See README.md for what the table means.
"""

import argparse
import collections
import hashlib
import json
import multiprocessing
import os
import random
import shutil
import sys
import tempfile

import numpy as np

import baselines
import blind
import cases
import faults
import identity
import respond
import twins
import variants

SETS = {"tuning": range(0, 10), "reporting": range(1000, 1050)}
AMPLITUDES = (1.0, .25, .0625)
SHORT = (5, 2)                                          # steps and realizations, if not said
OTHER_STREAMS = {"R04", "R19", "R24", "R37", "R38"}     # no faults where no noise is promised
BURIED = 3.0                                            # gain below which nobody can see a fault


def jobs(a):
    """(subject, mode, seed, amplitude): some seeds for each fault, all for each correct device."""
    catalogue, seeds, out = faults.load(), list(a.seeds or SETS[a.set]), []
    for mode in a.modes:
        for name in variants.of_mode(mode):
            n = a.per_correct or len(seeds)
            out += [(name, mode, s, 1.0) for s in spread(seeds, n, name + mode)]
        for f in catalogue.values():
            if mode in f.modes:
                out += [(f.id, mode, s, x) for s in spread(seeds, a.per, f.id + mode) for x in a.amplitudes]
    if a.only:
        out = [j for j in out if j[0] in a.only or j[0] in catalogue and catalogue[j[0]].family in a.only]
    if a.correct_only:
        out = [j for j in out if j[0] not in catalogue]
    random.Random(1).shuffle(out)
    return out[:a.limit] if a.limit else out


def spread(seeds, n, text):
    """n of the seeds, others for other subjects, the same each time."""
    at = cases.seed_of(text)
    return [seeds[(at + i) % len(seeds)] for i in range(min(n, len(seeds)))]


def checks(a, subject, tape):
    """The (noise, evidence) pairs that a case is checked with."""
    f = faults.load().get(subject)
    for noise in a.noise:
        if noise == "unknown" and (not tape or f and f.known and subject not in OTHER_STREAMS):
            continue
        for evidence in a.evidence:
            if not (evidence == "probes" and noise == "unknown"):
                yield noise, evidence


def label(a, job):
    """The key of a case in the cache."""
    size = () if (a.steps, a.realizations) == SHORT else (f"{a.steps}x{a.realizations}",)
    return "|".join(map(str, job + size))


def work(task):
    """Makes one case, and whatever is not known of it yet."""
    job, a, known, done = task
    subject, mode, seed, amplitude = job
    made = cases.make(subject, mode, seed, amplitude, a.steps + 1, a.realizations)
    device, verdicts = known, {}
    if device is None:
        device = dict(made.truth)
        if device["expect"] == "fail":
            device.update(identity.judge(made))
        device["operator"] = " ".join(str(made.operator.config.get(k)) for k in ("normalization", "activation", "noise_type")) + " " + made.operator.rollout["policy_type"]
    if not a.no_baselines and "baselines" not in device:
        device = {**device, "baselines": baselines.judge(made)}
    if not a.baselines_only:
        for noise, evidence in checks(a, subject, made.tape):
            if f"{noise}|{evidence}" not in done:
                verdicts[f"{noise}|{evidence}"] = check(a, made, noise, evidence)
    return job, device, verdicts


def check(a, made, noise, evidence):
    """The verdict of the binary on a case."""
    with tempfile.TemporaryDirectory(prefix="zoo") as folder:
        if evidence == "probes":
            return respond.probed(a.binary, made, folder)
        cases.write(made, folder, layers=evidence == "layers", noise=noise == "known")
        return respond.run_check(a.binary, folder, [] if noise == "known" else ["--noise", "unknown"])


# The cache: lines of JSON, one file for what the device says and one for each binary.

class Cache:
    def __init__(self, path):
        self.path, self.have = path, {}
        if os.path.exists(path):
            with open(path) as f:
                for line in f:
                    try:
                        r = json.loads(line)
                    except ValueError:      # cut off when a run was stopped
                        continue
                    self.have.setdefault(r["key"], {}).update(r["value"])

    def put(self, key, value):
        self.have.setdefault(key, {}).update(value)
        with open(self.path, "a") as f:
            f.write(json.dumps({"key": key, "value": value}) + "\n")


def collect(a):
    """Runs what is missing; returns [(job, device result, {check: verdict})]."""
    os.makedirs(a.cache, exist_ok=True)
    v = cases.version()
    device = Cache(os.path.join(a.cache, f"device-{v}.jsonl"))
    verdict = None
    if not a.baselines_only:
        with open(a.binary, "rb") as f:
            b = hashlib.sha256(f.read()).hexdigest()[:12]
        verdict = Cache(os.path.join(a.cache, f"check-{v}-{b}.jsonl"))
    pending, every = [], jobs(a)
    for j in every:
        known = device.have.get(label(a, j))
        done = set(verdict.have.get(label(a, j), {})) if verdict else set()
        want = set() if a.baselines_only else {f"{n}|{e}" for n in a.noise for e in a.evidence}
        # which checks a case gets depends on its operator; "all" marks a complete one
        if known is None or not (a.no_baselines or "baselines" in known) or not (want <= done or a.baselines_only or f"complete:{','.join(sorted(want))}" in done):
            pending.append((j, a, known, done))
    want = ",".join(sorted(f"{n}|{e}" for n in a.noise for e in a.evidence))
    if a.cached:
        pending = []
    with multiprocessing.Pool(a.jobs) as pool:
        for i, (j, d, found) in enumerate(pool.imap_unordered(work, pending), 1):
            device.put(label(a, j), d)
            if verdict:
                verdict.put(label(a, j), {**found, f"complete:{want}": True})
            if sys.stderr.isatty() or i % 100 == 0 or i == len(pending):
                print(f"\r{i} of {len(pending)} cases", end="" if sys.stderr.isatty() else "\n", file=sys.stderr, flush=True)
    if pending and sys.stderr.isatty():
        print(file=sys.stderr)
    return [(j, device.have[label(a, j)], verdict.have.get(label(a, j), {}) if verdict else {}) for j in every if label(a, j) in device.have]


# The table.

def percent(n, of):
    return f"{100 * n / of:5.1f}" if of else "    -"


def failed(v):
    return v.get("verdict", "").startswith("FAIL")


def is_fault(job, d, noise):
    return d["expect"] == "fail" and not (noise == "unknown" and job[0] in OTHER_STREAMS)


def hidden(d, evidence):
    """Why a fault cannot be seen, if it cannot. Layers show what a trajectory hides."""
    if d.get("identity") == "never acts" or d.get("identity") and evidence == "trajectory":
        return d["identity"]


def section(a, rows, noise, evidence):
    """Counts of one kind of evidence."""
    name = f"{noise}|{evidence}"
    rows = [(j, d, c[name]) for j, d, c in rows if name in c]
    out = {"noise": noise, "evidence": evidence, "cases": len(rows), "errors": [], "missed": [], "identities": [], "false_alarms": [], "wrong_name": [], "no_name": [], "twins": []}
    power, alarms = collections.Counter(), collections.Counter()
    first, layer, named = [0, 0], [0, 0], collections.Counter()
    for (subject, mode, seed, amp), d, v in rows:
        where = {"subject": subject, "mode": mode, "seed": seed, "amplitude": amp, "operator": d["operator"]}
        if "error" in v:
            out["errors"].append({**where, "error": v["error"]})
            continue
        if not is_fault((subject,), d, noise):
            alarms[mode, "all"] += 1
            alarms[mode, v["verdict"]] += 1
            if failed(v):
                out["false_alarms"].append({**where, "verdict": v["verdict"], "first_step": v["first_step"], "layer": v["first_layer"], "reason": v["reason"]})
            continue
        why = hidden(d, evidence)
        if why and not failed(v):
            out["identities"].append({**where, "what": d["what"], "why": why})
            continue
        k = d["family"], mode, amp
        power[k + ("all",)] += 1
        if not failed(v):
            power[k + ("blind" if v["verdict"] == "NO-POWER" else "missed",)] += 1
            buried = evidence == "trajectory" and d["gain"] < BURIED
            power[k + ("buried",)] += buried
            entry = blind.listed(subject, v.get("blind"), d["first_step"])
            power[k + ("listed",)] += entry is not None
            out["missed"].append({**where, "listed": entry, "what": d["what"], "gain": d["gain"], "size": d["size"], "peak": d["peak"], "outside": d["outside"],
                                  "verdict": v["verdict"], "buried": buried})
            continue
        power[k + ("caught",)] += 1
        if v["first_step"] is not None and v["first_step"] >= 0 and evidence != "probes":
            first[1] += 1
            first[0] += v["first_step"] in (d["first_step"], d.get("first_visible"))
        if evidence == "layers" and d["first_layer"]:
            layer[1] += 1
            layer[0] += v["first_layer"] == d["first_layer"]
        family, name_of = v["verdict"].removeprefix("FAIL-").lower(), v["diagnosis"]
        full = "all" if amp == 1 else "less"
        if d["family"] == "rare" or family in [d["family"]] + d["accept"]:
            named[full, "right"] += 1
            named[full, "unnamed"] += not name_of
            continue
        said = {**where, "what": d["what"], "verdict": v["verdict"], "diagnosis": name_of}
        kind = "no_name" if not name_of else "wrong_name"
        if kind == "wrong_name" and twins.same(cases.make(subject, mode, seed, amp, a.steps + 1, a.realizations), name_of):
            kind = "twins"
        named[full, kind] += 1
        out[kind].append(said)
    out["power"] = [{"family": f, "mode": m, "amplitude": x, "all": power[f, m, x, "all"], "caught": power[f, m, x, "caught"],
                     "blind": power[f, m, x, "blind"], "listed": power[f, m, x, "listed"], "buried": power[f, m, x, "buried"]}
                    for f in faults.FAMILIES for m in a.modes for x in a.amplitudes if power[f, m, x, "all"]]
    out["correct"] = {m: {k[1]: n for k, n in alarms.items() if k[0] == m} for m in a.modes}
    out.update(first_step=first, layer=layer, diagnosis={size: {k: named[size, k] for k in ("right", "unnamed", "twins", "no_name", "wrong_name")} for size in ("all", "less")})
    return out


def show(a, s):
    title = f"noise {s['noise']}, evidence {s['evidence']}: {s['cases']} cases"
    print(f"\n{title}\n{'-' * len(title)}")
    print(f"{'caught, %':<12}" + "".join(f"{m + ' ' + '/'.join(f'{x:g}' for x in a.amplitudes):>30}" for m in a.modes))
    cell = {(p["family"], p["mode"], p["amplitude"]): p for p in s["power"]}
    for f in list(faults.FAMILIES) + ["all"]:
        line = f"{f:<12}"
        for m in a.modes:
            part = []
            for x in a.amplitudes:
                ps = [p for (pf, pm, px), p in cell.items() if (f in (pf, "all")) and pm == m and px == x]
                part.append(percent(sum(p["caught"] for p in ps), sum(p["all"] for p in ps)))
            n = sum(p["all"] for (pf, pm, px), p in cell.items() if f in (pf, "all") and pm == m)
            line += f"{' '.join(part) + f' of {n}':>30}"
        print(line)
    print("false alarms  " + ", ".join(f"{m}: {sum(n for k, n in c.items() if k.startswith('FAIL'))} of {c.get('all', 0)}"
                                    f" ({c.get('PASS-ACCURATE', 0)} accurate, {c.get('NO-POWER', 0)} no power)" for m, c in s["correct"].items()))
    print(f"first step exact {percent(*s['first_step'])} % of {s['first_step'][1]};  layer right {percent(*s['layer'])} % of {s['layer'][1]};"
          f"  errors {len(s['errors'])}")
    for size, title in (("all", "full amplitude"), ("less", "smaller amplitudes")):
        n = s["diagnosis"][size]
        of = n["right"] + n["twins"] + n["no_name"] + n["wrong_name"]
        if of:
            print(f"diagnosis, {title}: right family {percent(n['right'] + n['twins'], of)} % ({n['unnamed']} of them without a name, {n['twins']} by that of a fault that makes the same states),"
                  f" no name {percent(n['no_name'], of)} % ({n['no_name']}), wrong name {percent(n['wrong_name'], of)} % ({n['wrong_name']}) of {of}")
    certified = sum(m["listed"] is not None or m["verdict"] == "NO-POWER" for m in s["missed"])
    print(f"caught {sum(p['caught'] for p in s['power'])}; not caught, but listed as what this run could not show, {certified}; neither {len(s['missed']) - certified}")
    group = collections.defaultdict(list)
    for m in s["missed"]:
        group[m["subject"], m["what"]].append(m)
    print(f"missed {len(s['missed'])} ({sum(m['buried'] for m in s['missed'])} of gain below {BURIED:g}, which nobody can see):")
    for (i, what), ms in sorted(group.items()):
        print(f"  {i:<6} {what}: " + ", ".join(f"{m['mode']}@{m['amplitude']:g} seed {m['seed']} size {m['size']:.2g}{' no power' if m['verdict'] == 'NO-POWER' else ' listed' if m['listed'] else ''}" for m in ms[:6])
              + (f" and {len(ms) - 6} more" if len(ms) > 6 else ""))
    for kind, text in (("false_alarms", "false alarms"), ("wrong_name", "wrong name"), ("no_name", "wrong family, no name"), ("twins", "named by a fault that makes the same states"), ("errors", "errors")):
        if s[kind]:
            print(f"{text}:")
        for r in s[kind][:40]:
            print("  " + ", ".join(f"{k} {str(v)[:200]}" for k, v in r.items()))
    same = collections.Counter((r["subject"], r["what"]) for r in s["identities"])
    print(f"identities {len(s['identities'])}: " + ", ".join(f"{i} ({n})" for (i, _), n in sorted(same.items())))


def show_baselines(a, rows):
    """The validators of others on the same trajectories."""
    rows = [r for r in rows if "baselines" in r[1]]
    print("\nother validators, one step at a time on the same trajectories")
    print(f"{'caught, %':<30}" + "".join(f"{m + ' ' + '/'.join(f'{x:g}' for x in a.amplitudes):>24}" for m in a.modes) + "   false alarms")
    out = {}
    for rule in baselines.RULES:
        line, alarms = f"{rule:<30}", []
        for m in a.modes:
            part = []
            for x in a.amplitudes:
                f = [d["baselines"][rule] for (_, mode, _, amp), d, _ in rows if mode == m and amp == x and d["expect"] == "fail" and not d.get("identity")]
                part.append(percent(sum(f), len(f)))
                out[f"{rule}|{m}|{x:g}"] = [sum(f), len(f)]
            c = [d["baselines"][rule] for (_, mode, _, _), d, _ in rows if mode == m and d["expect"] == "pass"]
            alarms.append(f"{sum(c)}/{len(c)}")
            out[f"{rule}|{m}|alarms"] = [sum(c), len(c)]
            line += f"{' '.join(part):>24}"
        print(line + "   " + " ".join(alarms))
    return out


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--binary", default="refrun")
    p.add_argument("--set", choices=SETS, default="tuning")
    p.add_argument("--seeds", type=respond.numbers, help="such as 0-3,7, instead of the set's")
    p.add_argument("--modes", type=lambda t: t.split(","), default=list(faults.ALL))
    p.add_argument("--noise", choices=("known", "unknown", "both"), default="known")
    p.add_argument("--evidence", type=lambda t: t.split(","), default=["trajectory"], help="trajectory; layers: and those of some steps; probes: the trajectory, then answers to refrun probe")
    p.add_argument("--amplitudes", type=lambda t: [float(x) for x in t.split(",")], default=list(AMPLITUDES))
    p.add_argument("--steps", type=int, default=SHORT[0])
    p.add_argument("--realizations", type=int, default=SHORT[1])
    p.add_argument("--per", type=int, default=1, help="seeds for each fault and mode")
    p.add_argument("--per-correct", type=int, default=0, help="seeds for each correct device (0: all of the set)")
    p.add_argument("--only", type=lambda t: set(t.split(",")), help="subjects or families")
    p.add_argument("--correct-only", action="store_true")
    p.add_argument("--baselines-only", action="store_true", help="without a binary")
    p.add_argument("--no-baselines", action="store_true", help="without the other validators, which take a quarter of a correct device's time")
    p.add_argument("--limit", type=int, default=0, help="so many cases, drawn from all")
    p.add_argument("--jobs", type=int, default=2)
    p.add_argument("--cached", action="store_true", help="run nothing: the table of what is in the cache")
    p.add_argument("--cache", default=os.path.join(os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache")), "refrun-zoo"))
    p.add_argument("--json", help="write everything here")
    a = p.parse_args()
    a.noise = ["known", "unknown"] if a.noise == "both" else [a.noise]
    if a.baselines_only and a.no_baselines:
        p.error("--no-baselines: want something else with --baselines-only")
    if not a.baselines_only:
        path = shutil.which(a.binary)
        if path is None:
            p.error(f"--binary: {a.binary}: not found")
        a.binary = os.path.abspath(path)
    rows = collect(a)
    report = {"device": cases.version(), "set": a.set, "steps": a.steps, "realizations": a.realizations, "sections": []}
    if not a.baselines_only:
        for noise in a.noise:
            for evidence in a.evidence:
                s = section(a, rows, noise, evidence)
                if s["cases"]:
                    show(a, s)
                    report["sections"].append(s)
    if not a.no_baselines:
        report["baselines"] = show_baselines(a, rows)
    if a.json:
        with open(a.json, "w") as f:
            json.dump(report, f, indent=1, default=lambda v: v.item() if isinstance(v, np.generic) else str(v))


if __name__ == "__main__":
    main()
