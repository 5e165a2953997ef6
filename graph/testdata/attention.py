# attention.py writes attention.json: what PyTorch's scaled_dot_product_attention makes of
# small float64 numbers (math backend), and the shapes of results or that it refuses.
#
#   python3 attention.py > attention.json
import json
import torch
import torch.nn.functional as F
from torch.nn.attention import sdpa_kernel, SDPBackend

torch.manual_seed(5)
cases = []
for q, k, v, mask, options in [
    ((5, 8), (6, 8), (6, 7), None, {}),
    ((3, 5, 8), (3, 6, 8), (3, 6, 7), None, {"is_causal": True}),
    ((2, 3, 4, 8), (1, 3, 6, 8), (1, 3, 6, 5), None, {"scale": 0.5}),
    ((2, 3, 4, 8), (2, 3, 6, 8), (2, 3, 6, 5), (4, 6), {}),
    ((2, 3, 4, 8), (2, 3, 6, 8), (2, 3, 6, 5), (2, 1, 4, 6), {"truth": True}),
    ((2, 3, 4, 8), (2, 3, 6, 8), (2, 3, 6, 5), (3, 1, 6), {}),
    ((2, 4, 5, 8), (2, 2, 6, 8), (2, 2, 6, 7), None, {"enable_gqa": True}),
    ((2, 4, 5, 8), (2, 1, 6, 8), (2, 1, 6, 7), (4, 5, 6), {"enable_gqa": True}),
    ((2, 4, 5, 8), (2, 2, 6, 8), (2, 2, 6, 7), (2, 1, 5, 6), {"enable_gqa": True, "truth": True}),
    ((2, 4, 5, 8), (2, 2, 6, 8), (2, 2, 6, 7), None, {}),
    ((2, 3, 5, 8), (2, 2, 6, 8), (2, 2, 6, 7), None, {"enable_gqa": True}),
    ((5, 8), (6, 8), (6, 7), None, {"enable_gqa": True}),
    ((5, 8), (6, 7), (6, 7), None, {}),
    ((5, 8), (6, 8), (5, 7), None, {}),
    ((8,), (6, 8), (6, 7), None, {}),
    ((5, 8), (6, 8), (6, 7), (4, 6), {}),
    ((2, 5, 8), (2, 6, 8), (2, 6, 7), (3, 5, 6), {}),
    ((3, 8), (0, 8), (0, 7), None, {}),
]:
    options = dict(options)
    truth = options.pop("truth", False)
    t = [torch.randn(s, dtype=torch.float64).bfloat16().double() for s in (q, k, v)]
    m = None
    if mask:
        m = torch.rand(mask) < 0.7 if truth else torch.randn(mask).bfloat16().double()
        if truth:
            m[..., 1, :] = False
    case = {"shapes": [q, k, v] + ([mask] if mask else []), "attributes": options, "truth": truth,
            "inputs": [x.flatten().tolist() for x in t] + ([m.double().flatten().tolist()] if mask else [])}
    try:
        with sdpa_kernel(SDPBackend.MATH):
            y = F.scaled_dot_product_attention(*t, attn_mask=m, **options)
        case["shape"], case["out"] = list(y.shape), y.flatten().tolist()
    except Exception:
        case["inputs"] = []
    cases.append(case)
print(json.dumps({"torch": torch.__version__, "cases": cases}))
