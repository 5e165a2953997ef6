"""The random numbers of torch.rand and torch.randn on a CUDA device, in numpy.

Written from the Philox4x32-10 paper (Salmon et al., SC 2011) and from the
arrangement that PyTorch documents in DistributionTemplates.h, independently of
refrun's Go code, so that the two can be held against each other without a GPU and
both against a GPU where there is one.
"""

import numpy as np

MASK = np.uint64(0xFFFFFFFF)


def words(counter, thread, seed):
    """Four words of 32 bits for each pair of counter and thread: counter in the low half of the block, thread in the high."""
    lo, hi = np.uint64(32), MASK
    c = [counter & hi, counter >> lo, thread & hi, thread >> lo]
    k0, k1 = np.uint64(seed & 0xFFFFFFFF), np.uint64(seed >> 32)
    for _ in range(10):
        a, b = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        c = [(b >> lo) ^ c[1] ^ k0, b & hi, (a >> lo) ^ c[3] ^ k1, a & hi]
        k0, k1 = (k0 + np.uint64(0x9E3779B9)) & hi, (k1 + np.uint64(0xBB67AE85)) & hi
    return c


def arranged(n, seed, sms, threads_per_sm=2048, at=None):
    """The words of the elements `at` (all by default) of a draw of n, right after manual_seed(seed): (words, component).

    A wave has as many threads as the device holds in blocks of 256; each draws four
    numbers at a time, for elements that lie a wave apart.
    """
    wave = 256 * min(-(-n // 256), sms * (threads_per_sm // 256))
    i = np.arange(n, dtype=np.uint64) if at is None else np.asarray(at, np.uint64)
    rest = i % np.uint64(4 * wave)
    w = words(i // np.uint64(4 * wave), rest % np.uint64(wave), seed)
    return w, (rest // np.uint64(wave)).astype(int)


def unit(w):
    """A word as a float32 in (0,1]: float(w) 2^-32 + 2^-33, every operation rounded."""
    return w.astype(np.float32) * np.float32(2**-32) + np.float32(2**-33)


def rand(*args, **kw):
    """torch.rand(n): bit for bit, 1 becomes 0."""
    w, component = arranged(*args, **kw)
    u = unit(np.choose(component, w))
    return np.where(u == 1, np.float32(0), u)


def randn(*args, **kw):
    """torch.randn(n): Box-Muller, the sine first. A device has approximate sines: see [polar] and stream.py."""
    radius, wave = polar(*args, **kw)
    return radius * wave


def polar(*args, **kw):
    """The factors of torch.randn(n): the radius, and the sine or the cosine."""
    w, component = arranged(*args, **kw)
    u = unit(np.where(component < 2, w[0], w[2])).astype(np.float64)
    turn = np.float64(np.float32(2**-32) * np.float32(2 * np.pi))
    angle = np.where(component < 2, w[1], w[3]).astype(np.float32) * turn + turn / 2  # fused in float32
    angle = angle.astype(np.float32).astype(np.float64)
    return np.sqrt(-2 * np.log(u)), np.where(component % 2 == 0, np.sin(angle), np.cos(angle))
