"""An operation with a gradient of its own, checked against differences.

`import torch` instead of the line below prints the same.
"""

import tracegrad as torch


class Exp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, i):
        result = i.exp()
        ctx.save_for_backward(result)
        return result

    @staticmethod
    def backward(ctx, grad_output):
        (result,) = ctx.saved_tensors
        return grad_output * result


class Clip(torch.autograd.Function):
    """Limits values, but lets gradients through as if it did nothing."""

    @staticmethod
    def forward(x, low, high):
        return x.clamp(low, high)

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output, None, None


x = torch.tensor([0.0, 1.0, 2.0], requires_grad=True)
y = Exp.apply(x)
print(y)
y.sum().backward()
print("gradient:", x.grad)

x = torch.tensor([-3.0, 0.5, 3.0], requires_grad=True)
clipped = Clip.apply(x, -1.0, 1.0)
print(clipped)
(clipped * torch.tensor([1.0, 2.0, 3.0])).sum().backward()
print("straight through:", x.grad)

# second derivatives come from backward itself
x = torch.tensor([0.0, 1.0], requires_grad=True)
(first,) = torch.autograd.grad(Exp.apply(x).sum(), x, create_graph=True)
(second,) = torch.autograd.grad(first.sum(), x)
print("second derivative:", second)

x = torch.tensor([[0.1, -0.7], [1.3, 0.4]], dtype=torch.double, requires_grad=True)
print("gradcheck:", torch.autograd.gradcheck(Exp.apply, (x,), eps=1e-6, atol=1e-4))
print("gradgradcheck:", torch.autograd.gradgradcheck(Exp.apply, (x,)))


class Wrong(Exp):
    @staticmethod
    def backward(ctx, grad_output):
        return grad_output * 2


print("a wrong one:", torch.autograd.gradcheck(Wrong.apply, (x,), raise_exception=False))
