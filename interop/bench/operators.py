"""The CNN operator that is timed, without its noise: in PyTorch, as an ONNX graph, and in JAX."""

import torch
from onnx import TensorProto, helper, numpy_helper


class ConvBlock(torch.nn.Module):
    def __init__(self, i, o, k, norm):
        super().__init__()
        n = torch.nn.GroupNorm(min(32, o), o) if norm == "group" else torch.nn.InstanceNorm2d(o, affine=True)
        self.block = torch.nn.Sequential(torch.nn.Conv2d(i, o, k, padding=k // 2, bias=False), n, torch.nn.GELU())

    def forward(self, x):
        return self.block(x)


class ResidualBlock(torch.nn.Module):
    def __init__(self, i, o, k, norm):
        super().__init__()
        self.blocks = torch.nn.Sequential(ConvBlock(i, o, k, norm), ConvBlock(o, o, k, norm))
        self.projection = torch.nn.Conv2d(i, o, 1, bias=False) if i != o else torch.nn.Identity()

    def forward(self, x):
        return self.blocks(x) + self.projection(x)


class Output(torch.nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.conv = torch.nn.Conv2d(i, o, 1)

    def forward(self, x):
        return self.conv(x)


class Operator(torch.nn.Module):
    """Spinlock's CNN operator of 4 layers, a norm and GELU, with refrun's names of parameters."""

    def __init__(self, base, k, norm="instance"):
        super().__init__()
        widths = [base, base, 2 * base, 4 * base, 4 * base]
        self.conv_blocks = torch.nn.Sequential(
            ConvBlock(3, base, k, norm), *[ResidualBlock(i, o, k, norm) for i, o in zip(widths, widths[1:])])
        self.output_layer = Output(4 * base, 3)

    def forward(self, x):
        return self.output_layer(self.conv_blocks(x))

    def flop(self, x):
        """Multiplications and additions of the convolutions, for an input like x."""
        return 2 * x.shape[0] * x.shape[2] * x.shape[3] * sum(p.numel() for p in self.parameters() if p.dim() == 4)


def onnx_model(net, shape):
    """The same operator as an ONNX graph, node by node."""
    nodes, weights = [], []

    def node(op, inputs, **attributes):
        name = f"t{len(nodes)}"
        nodes.append(helper.make_node(op, inputs, [name], **attributes))
        return name

    def given(p):
        weights.append(numpy_helper.from_array(p.detach().numpy(), f"w{len(weights)}"))
        return weights[-1].name

    def conv(m, x):
        k = m.kernel_size[0]
        return node("Conv", [x, given(m.weight)] + ([given(m.bias)] if m.bias is not None else []), kernel_shape=[k, k], pads=[k // 2] * 4)

    def block(m, x):
        c, n, _ = m.block
        x = [conv(c, x), given(n.weight), given(n.bias)]
        if isinstance(n, torch.nn.GroupNorm):
            x = node("GroupNormalization", x, epsilon=n.eps, num_groups=n.num_groups)
        else:
            x = node("InstanceNormalization", x, epsilon=n.eps)
        return node("Gelu", [x])

    def residual(m, x):
        y = x
        for b in m.blocks:
            y = block(b, y)
        return node("Add", [y, conv(m.projection, x) if isinstance(m.projection, torch.nn.Conv2d) else x])

    x = block(net.conv_blocks[0], "x")
    for m in list(net.conv_blocks)[1:]:
        x = residual(m, x)
    x = conv(net.output_layer.conv, x)
    graph = helper.make_graph(nodes, "operator", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
                              [helper.make_tensor_value_info(x, TensorProto.FLOAT, shape)], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10).SerializeToString()


def jax_function(net):
    """The same operator as a compiled JAX function of one array; weights are its constants, as in the others."""
    import jax
    import jax.numpy as jnp

    def given(p):
        return jnp.asarray(p.detach().numpy())

    def conv(m):
        w, bias, k = given(m.weight), None if m.bias is None else given(m.bias)[None, :, None, None], m.kernel_size[0]

        def f(x):
            y = jax.lax.conv_general_dilated(x, w, (1, 1), [(k // 2, k // 2)] * 2, dimension_numbers=("NCHW", "OIHW", "NCHW"), precision="highest")
            return y if bias is None else y + bias

        return f

    def block(m):
        c, n, _ = m.block
        groups = n.num_groups if isinstance(n, torch.nn.GroupNorm) else n.num_features
        c, gamma, beta, eps = conv(c), given(n.weight)[None, :, None, None], given(n.bias)[None, :, None, None], n.eps

        def f(x):
            x = c(x)
            y = x.reshape(x.shape[0], groups, -1)  # an instance norm has a group for each channel
            mean = y.mean(2, keepdims=True)
            var = ((y - mean) ** 2).mean(2, keepdims=True)
            y = ((y - mean) / jnp.sqrt(var + eps)).reshape(x.shape)
            return jax.nn.gelu(y * gamma + beta, approximate=False)

        return f

    first = block(net.conv_blocks[0])
    residuals = [([block(b) for b in m.blocks], conv(m.projection) if isinstance(m.projection, torch.nn.Conv2d) else lambda x: x)
                 for m in list(net.conv_blocks)[1:]]
    last = conv(net.output_layer.conv)

    @jax.jit
    def step(x):
        x = first(x)
        for blocks, projection in residuals:
            y = x
            for b in blocks:
                y = b(y)
            x = y + projection(x)
        return last(x)

    return step
