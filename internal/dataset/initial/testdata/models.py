"""What statistics the initial conditions of dataset/initial have, by a second model of each
definition in float64 numpy with numpy's own random numbers and transforms:

    python models.py > models.json      (numpy 2.4.6, three minutes)

For each condition: the mean and the standard deviation over states [3,24,24] of the features
that `features` lists.
"""

import json
import sys

import numpy as np

N, C, STATES = 24, 3, 3000
TAU = 2 * np.pi
Y, X = np.mgrid[0:N, 0:N].astype(float)
K = np.hypot(*np.meshgrid(np.fft.fftfreq(N, 1 / N), np.fft.fftfreq(N, 1 / N))) * TAU
rng = np.random.default_rng(20260)
U, normal = rng.uniform, rng.standard_normal


def spectrum(variance, p):
    z = (normal((C, N, N)) + 1j * normal((C, N, N))) / np.sqrt(2)
    return np.real(np.fft.ifft2(z * np.sqrt(2 * variance * p / p.sum()))) * N * N


def grf(length, variance):
    return spectrum(variance, np.exp(-(K**2) * length**2 / 2))


def dist(cx, cy):
    return np.hypot(X - cx, Y - cy)


def gauss(r, s):
    return np.exp(-(r**2) / (2 * s**2))


def turned(x, y, a):
    return x * np.cos(a) + y * np.sin(a)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def same(f):
    return np.broadcast_to(f, (C, N, N)).copy()


def over(f):
    m = np.abs(f).max()
    return f / m if m > 0 else f


def unit(f):
    lo, hi = f.min(), f.max()
    return (f - lo) / (hi - lo) if hi > lo else 0 * f


def white(variance=1):
    return normal((C, N, N)) * np.sqrt(variance)


def zeros():
    return np.zeros((C, N, N))


def gaussian_random_field(length_scale=0.1, variance=1):
    return grf(length_scale, variance)


def spinlock_grf(length_scale=0.1, variance=1):
    z = (normal((C, N, N)) + 1j * normal((C, N, N))) / np.sqrt(2)
    return np.real(np.fft.ifft2(z * np.sqrt(variance * np.exp(-((K / TAU / N) ** 2) * length_scale**2 / 2))))


def multiscale_grf(scales=(0.02, 0.05, 0.1, 0.2, 0.4), variance=1):
    return sum(grf(s, variance / len(scales)) for s in scales)


def heavy_tailed(alpha=1.5, variance=1):
    with np.errstate(divide="ignore"):
        return spectrum(variance, np.where(K > 0, K, np.inf) ** -alpha)


def critical_fluctuation(correlation_length=15, eta=0.04, variance=1):
    return spectrum(variance, ((K / N) ** 2 + correlation_length**-2.0) ** (eta / 2 - 1))


def structured(num_structures=5, structure="any"):
    f = zeros()
    for _ in range(num_structures):
        kind = structure if structure != "any" else rng.choice(["circle", "stripe", "blob"])
        c, r, u = rng.integers(C), dist(N * U(), N * U()), U()
        if kind == "circle":
            f[c] += 2 * normal() * (r < 0.2 * N * u)
        elif kind == "stripe":
            f[c] += np.sin(turned(X, Y, U(0, TAU)) * U(1, 6) * TAU / N)
        else:
            f[c] += 3 * normal() * gauss(r, 0.15 * N * u)
    return f


def mixed(length_scale=0.1, variance=1, num_structures=5):
    return grf(length_scale, variance) if U() < 0.5 else structured(num_structures)


def localized(num_blobs=5, min_width=5, max_width=15):
    f = zeros()
    for _ in range(num_blobs):
        f += 2 * normal((C, 1, 1)) * gauss(dist(N * U(), N * U()), U(min_width, max_width))
    return f


def composite(pattern="waves", noise_level=0.1, grf_length_scale=0.05):
    k, m = TAU / N, N / 2
    if pattern == "waves":
        f = np.sin(turned(X, Y, U(0, TAU)) * U(2, 6) * k)
    elif pattern == "grid":
        q = U(3, 6)
        f = np.sin(X * q * k) * np.sin(Y * q * k)
    else:
        f = np.sin(dist(m, m) * U(2, 6) * k)
    return same(f) + grf(grf_length_scale, noise_level**2)


def turing_pattern(pattern="spots", wavelength=16, perturbation=0.1):
    k, a = TAU / wavelength, U(0, TAU)
    waves = {"spots": [(a + i * TAU / 3, 0) for i in range(3)], "stripes": [(a, 0)],
             "labyrinth": [(U(0, TAU), U(0, TAU)) for _ in range(rng.integers(2, 5))]}[pattern]
    return same(np.mean([np.cos(k * turned(X, Y, t) + p) for t, p in waves], axis=0)) + grf(wavelength / N, perturbation**2)


def thermal_gradient(direction="any", min_temperature=0, max_temperature=1, beta=1, noise_level=0.1, correlation_length=5):
    if direction == "any":
        direction = rng.choice(["x", "y", "both"])
    u = {"x": X, "y": Y, "both": (X + Y) / 2}[direction] / N
    return same(min_temperature + (max_temperature - min_temperature) * u**beta) + grf(correlation_length / N, noise_level**2)


def morphogen_gradient(profile="exponential", decay_length=20, num_sources=1, noise_level=0.05):
    f = 0
    for _ in range(num_sources):
        r, c = dist(N * U(), N * U()), U(0.5, 1)
        f = f + c * {"exponential": np.exp(-r / decay_length), "power_law": 1 / (1 + (r / decay_length) ** 2),
                     "sigmoidal": sigmoid((decay_length - r) / (0.2 * decay_length))}[profile]
    return unit(same(f) + grf(0.05, noise_level**2))


def reaction_front(front="planar", width=3, num_fronts=1):
    f = zeros()
    for _ in range(num_fronts):
        cx, cy = N * U(), N * U()
        if front == "planar":
            d = turned(X - cx, Y - cy, U(0, TAU))
        elif front == "circular":
            d = N * U(0.2, 0.5) - dist(cx, cy)
        else:
            d = grf(0.1, 1) * N / 10
        f = np.maximum(f, (1 + np.tanh(d / width)) / 2)
    return f


def phase_boundary(width=3, fluctuation=0.1):
    return same(np.tanh(turned(X - N / 2, Y - N / 2, U(0, TAU)) / (np.sqrt(2) * width))) + grf(0.1, fluctuation**2)


def shock_front(width=2, ratio=2, fluctuation=0.05):
    t = np.tanh((turned(X / N - 0.5, Y / N - 0.5, U(0, TAU)) - (U(0.3, 0.7) - 0.5)) * N / width)
    return same((1 - t) / 2 + ratio * (1 + t) / 2) + grf(0.05, fluctuation**2)


def light_cone(radius=20, smoothness=2, correlation_length=5, num_cones=1):
    return sum(sigmoid((radius - dist(N * U(), N * U())) / smoothness) * grf(correlation_length / N, 1) for _ in range(num_cones))


def interference_pattern(num_sources=2, wavelength=16, coherence_length=100):
    shift = TAU * np.arange(C)[:, None, None] / C
    f = zeros()
    for _ in range(num_sources):
        r = dist(N * U(), N * U())
        f += np.cos(TAU / wavelength * r + U(0, TAU) + shift) * gauss(r, coherence_length)
    return over(f)


def bz_reaction(pattern="spiral", wavelength=16, num_spirals=1, phase=0):
    n = num_spirals * (rng.integers(3, 8) if pattern == "turbulent" else 1)
    u = v = 0
    for _ in range(n):
        cx, cy = N * U(), N * U()
        arms = 0 if pattern == "target" else rng.choice([-1, 1])
        p = arms * np.arctan2(Y - cy, X - cx) - TAU / wavelength * dist(cx, cy)
        u, v = u + np.cos(p), v + np.sin(p + phase)
    return over(np.stack([u, v, (u + v) / 2]))


def quantum_wave_packet(sigma=10, min_momentum=0.1, max_momentum=0.5, num_packets=1):
    psi = 0
    for _ in range(num_packets):
        cx, cy = N * U(0.3, 0.7), N * U(0.3, 0.7)
        psi = psi + np.exp(-(dist(cx, cy) ** 2) / (4 * sigma**2) + 1j * U(min_momentum, max_momentum) * turned(X - cx, Y - cy, U(0, TAU)))
    d = np.abs(psi) ** 2
    return np.stack([psi.real, psi.imag, d / d.max()])


def coherent_state(alpha=1, sigma=10, omega=0.2, num_modes=1):
    f = 0
    for _ in range(num_modes):
        f = f + alpha * gauss(dist(N * U(), N * U()), sigma) * np.cos(omega * turned(X, Y, U(0, TAU)))
    return same(f) + grf(0.1, 0.5)


def relativistic_wave_packet(velocity=0.5, sigma=10, min_momentum=0.1, max_momentum=0.5):
    cx, cy, a = N * U(0.3, 0.7), N * U(0.3, 0.7), U(0, TAU)
    along, across = turned(X - cx, Y - cy, a), turned(X - cx, Y - cy, a + np.pi / 2)
    return same(np.exp(-(along**2 / (1 - velocity**2) + across**2) / (2 * sigma**2)) * np.cos(U(min_momentum, max_momentum) * along + U(0, TAU)))


def mutual_information(length_scale=0.3, noise_level=0.5):
    return same(grf(length_scale, 1)[0]) * np.sqrt(1 - noise_level**2) + noise_level * normal((C, N, N))


def shannon_entropy(pattern="gradient", min_entropy=0.1, max_entropy=1, patch_size=8):
    h = min_entropy + (max_entropy - min_entropy) * X / N
    if pattern == "patches":
        side = -(-N // patch_size)
        h = np.kron(U(min_entropy, max_entropy, (side, side)), np.ones((patch_size, patch_size)))[:N, :N]
    return grf(0.2, 0.5) + normal((C, N, N)) * np.exp(h)


def cell_population(num_cells=50, radius=3, clustering=0.5, kernel_width=5):
    cells = []
    for _ in range(100 * num_cells):
        if len(cells) == num_cells:
            break
        c = np.array([N * U(), N * U()])
        if cells and U() < clustering:
            a = U(0, TAU)
            c = cells[rng.integers(len(cells))] + 2 * radius * U(1, 3) * np.array([np.cos(a), np.sin(a)])
        if (c >= 0).all() and (c < N).all() and all(np.hypot(*(c - o)) >= 2 * radius for o in cells):
            cells.append(c)
    blobs = np.stack([gauss(dist(*c), kernel_width) for c in cells])
    return over(np.einsum("ci,iyx->cyx", U(0, 1, (C, len(cells))), blobs))


def chromatin_domain(pattern="TAD", num_domains=5, min_size=10, max_size=30, sharpness=3):
    if pattern == "AB":
        k, p = U(2, 6) * TAU / N, U(0, TAU)
        return same(np.where(np.sin(k * X + p) * np.sin(k * Y + p) > 0, U(-1, 1), U(-1, 1)))
    f = 0
    for _ in range(num_domains):
        length = U(min_size, max_size)
        start = U(0, max(N - length, 0))
        inside = lambda x: sigmoid((x - start) / sharpness) * sigmoid((start + length - x) / sharpness)
        f = f + U(-1, 1) * inside(X) * inside(Y)
    return same(f)


def gene_expression(correlation=0.3, min_expression=0, max_expression=1):
    common, out = grf(0.1, 1)[0], []
    for _ in range(C):
        kind, a, k = rng.integers(5), U(0, TAU), U(2, 6) * TAU / N
        own = [2 * turned(X / N - 0.5, Y / N - 0.5, a), np.cos(k * X) * np.cos(k * Y), np.cos(k * turned(X, Y, a)), gauss(dist(N * U(), N * U()), N / 5), 0 * X][kind]
        f = np.sqrt(correlation) * common + np.sqrt(1 - correlation) * own + 0.1 * normal((N, N))
        out.append(min_expression + (max_expression - min_expression) * unit(f))
    return np.stack(out)


def regulatory_network(topology="scale_free", num_nodes=5, probability=0.3, decay=0.2):
    n = num_nodes
    w = np.zeros((n, n))
    ends = [0]
    for i in range(1, n):
        ends.append(i)
        for j in range(i):
            if topology == "random":
                if U() < probability:
                    w[i, j], w[j, i] = normal(2)
            elif j < 2:
                e = ends[rng.integers(len(ends))]
                if e != i:
                    w[i, e], w[e, i] = normal(2)
                    ends += [i, e]
    blobs = np.stack([gauss(dist(N * U(), N * U()), N / 10) for _ in range(n)])
    s = normal((C, n))
    for _ in range(5):
        s = (1 - decay) * s + np.tanh(s @ w.T)
    return over(np.einsum("ci,iyx->cyx", s, blobs))


def dla_cluster(num_particles=500, stickiness=1):
    m = N // 2
    grown = np.zeros((N, N), bool)
    grown[m, m] = True
    reach = 0.0
    for _ in range(num_particles):
        start = reach + 5
        if start > m - 2:
            break
        a = U(0, TAU)
        x, y = m + round(start * np.cos(a)), m + round(start * np.sin(a))
        for _ in range(1 << 16):
            dx, dy = ((1, 0), (-1, 0), (0, 1), (0, -1))[rng.integers(4)]
            x, y = x + dx, y + dy
            if not (1 <= x < N - 1 and 1 <= y < N - 1):
                x, y = min(max(x, 1), N - 2), min(max(y, 1), N - 2)
                continue
            if (grown[y, x + 1] or grown[y, x - 1] or grown[y + 1, x] or grown[y - 1, x]) and not grown[y, x] and U() < stickiness:
                grown[y, x] = True
                reach = max(reach, np.hypot(x - m, y - m))
                break
    f = sum(np.roll(grown, (i, j), (0, 1)).astype(float) for i in range(-2, 3) for j in range(-2, 3))
    return same(f / f.max())


def error_correcting_code(code="repetition", rate=0.5, block_size=8, error_rate=0.1):
    side, out = -(-N // block_size), []
    n = side * side
    for _ in range(C):
        b = rng.choice([-1.0, 1.0], n)
        if code == "repetition":
            b = np.repeat(b, round(1 / rate))[:n]
        else:
            for i in range(3, n, 4):
                b[i] = b[i - 3] * b[i - 2] * b[i - 1]
        b = np.where(U(0, 1, n) < error_rate, -b, b).reshape(side, side)
        out.append(np.kron(b, np.ones((block_size, block_size)))[:N, :N])
    return np.stack(out)


CONDITIONS = [
    {"type": "white", "variance": 2}, {"type": "zeros"}, {"type": "gaussian_random_field"}, {"type": "gaussian_random_field", "length_scale": 0.03, "variance": 3},
    {"type": "spinlock_grf", "length_scale": 0.4}, {"type": "multiscale_grf"}, {"type": "heavy_tailed"}, {"type": "critical_fluctuation", "correlation_length": 5},
    {"type": "structured"}, {"type": "structured", "structure": "circle"}, {"type": "structured", "structure": "stripe"}, {"type": "structured", "structure": "blob"},
    {"type": "mixed"}, {"type": "localized", "min_width": 2, "max_width": 5},
    {"type": "composite"}, {"type": "composite", "pattern": "grid"}, {"type": "composite", "pattern": "radial"},
    {"type": "turing_pattern", "wavelength": 8}, {"type": "turing_pattern", "wavelength": 8, "pattern": "stripes"}, {"type": "turing_pattern", "wavelength": 8, "pattern": "labyrinth"},
    {"type": "thermal_gradient", "beta": 2}, {"type": "thermal_gradient", "direction": "both", "min_temperature": -1},
    {"type": "morphogen_gradient", "decay_length": 6}, {"type": "morphogen_gradient", "profile": "power_law", "num_sources": 3}, {"type": "morphogen_gradient", "profile": "sigmoidal", "decay_length": 6},
    {"type": "reaction_front"}, {"type": "reaction_front", "front": "circular", "num_fronts": 2}, {"type": "reaction_front", "front": "irregular"},
    {"type": "phase_boundary"}, {"type": "shock_front"}, {"type": "light_cone", "radius": 6, "num_cones": 2},
    {"type": "interference_pattern", "coherence_length": 10}, {"type": "bz_reaction"}, {"type": "bz_reaction", "pattern": "target", "phase": 1}, {"type": "bz_reaction", "pattern": "turbulent"},
    {"type": "quantum_wave_packet", "sigma": 3}, {"type": "coherent_state", "sigma": 4}, {"type": "relativistic_wave_packet", "sigma": 5, "velocity": 0.8},
    {"type": "mutual_information"}, {"type": "shannon_entropy"}, {"type": "shannon_entropy", "pattern": "patches"},
    {"type": "cell_population", "num_cells": 8, "radius": 2, "kernel_width": 2}, {"type": "chromatin_domain"}, {"type": "chromatin_domain", "pattern": "AB"},
    {"type": "gene_expression"}, {"type": "regulatory_network"}, {"type": "regulatory_network", "topology": "random"},
    {"type": "dla_cluster", "num_particles": 15, "stickiness": 0.5}, {"type": "error_correcting_code", "block_size": 4}, {"type": "error_correcting_code", "code": "parity", "block_size": 4},
]


def features(f):
    """Of a state [3,N,N]: what the test computes too."""
    out = {"mean": f.mean(), "square": (f**2).mean(), "cube": (np.tanh(f) ** 3).mean(), "absolute": np.abs(f).mean(), "over half": (f > 0.5).mean(),
           "most": np.tanh(f.max()), "least": np.tanh(f.min()), "square of the mean": f.mean() ** 2,
           "channel 0 times 1": (f[0] * f[1]).mean(), "channel 0 times 2": (f[0] * f[2]).mean(), "channel 0": (f[0] ** 2).mean(), "channel 2": f[2].mean(),
           "along x": (f * (X - N / 2) / N).mean(), "along y": (f * (Y - N / 2) / N).mean(), "middle": (f[:, 8:16, 8:16] ** 2).mean()}
    for r in (1, 2, 4, 8):
        out[f"{r} columns on"] = (f * np.roll(f, -r, 2)).mean()
        out[f"{r} rows on"] = (f * np.roll(f, -r, 1)).mean()
    out["2 on the diagonal"] = (f * np.roll(f, (-2, -2), (1, 2))).mean()
    return out


def main():
    rows = []
    for c in CONDITIONS:
        args = {k: v for k, v in c.items() if k != "type"}
        n = STATES if c["type"] != "dla_cluster" else STATES // 3
        got = [features(globals()[c["type"]](**args)) for _ in range(n)]
        stats = {k: [float(np.mean([g[k] for g in got])), float(np.std([g[k] for g in got]))] for k in got[0]}
        rows.append({"condition": c, "states": n, "features": stats})
        print(c, file=sys.stderr)
    print(json.dumps({"side": N, "channels": C, "rows": rows}, indent=0))


if __name__ == "__main__":
    main()
