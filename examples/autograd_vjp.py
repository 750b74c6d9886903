"""Vector-Jacobian products: backward(v) on a result that is no scalar, three times through one graph.

`import torch` instead of the line below prints the same.
"""

import tracegrad as torch

inp = torch.eye(4, 5, requires_grad=True)
out = (inp + 1).pow(2).t()
out.backward(torch.ones_like(out), retain_graph=True)
print(f"First call\n{inp.grad}")
out.backward(torch.ones_like(out), retain_graph=True)
print(f"\nSecond call on the same graph: gradients add up\n{inp.grad}")
inp.grad.zero_()
out.backward(torch.ones_like(out), retain_graph=True)
print(f"\nThird call, after zeroing\n{inp.grad}")

# y doubles until its norm passes 1000; v weighs its elements
x = torch.tensor([0.3, -1.2, 0.8], requires_grad=True)
y = x * 2
while y.data.norm() < 1000:
    y = y * 2
y.backward(torch.tensor([0.1, 1.0, 0.0001]))
print("\ny =", y)
print("v · J =", x.grad)

# the whole Jacobian, row by row, and at once
jacobian = torch.autograd.functional.jacobian(lambda x: x.prod() * x, x.detach())
rows = torch.autograd.grad(x.prod() * x, x, torch.eye(3), is_grads_batched=True)[0]
print("Jacobian:\n", jacobian)
print("the same from batched products:", torch.allclose(jacobian, rows))
