"""One layer with a binary cross entropy: what is recorded, and what backward gives.

`import torch` instead of the line below prints the same.
"""

import tracegrad as torch

x = torch.ones(5)  # input
y = torch.zeros(3)  # expected output
w = torch.arange(15.0).reshape(5, 3).sub(7.0).div(10.0).requires_grad_()
b = torch.tensor([0.1, -0.2, 0.3], requires_grad=True)

z = torch.matmul(x, w) + b
loss = torch.nn.functional.binary_cross_entropy_with_logits(z, y)
print("z =", z)
print("loss =", loss)
print("made by", z.grad_fn.name(), "and", loss.grad_fn.name())

loss.backward()
print("w.grad =", w.grad)
print("b.grad =", b.grad)

# by hand: the mean over 3 outputs of sigmoid(z) - y
expected = (torch.sigmoid(z) - y).detach() / 3
print("as by hand:", torch.allclose(b.grad, expected), torch.allclose(w.grad, expected.expand(5, 3)))

# training: the loss falls
for step in range(50):
    loss = torch.nn.functional.binary_cross_entropy_with_logits(x @ w + b, y)
    w.grad = b.grad = None
    loss.backward()
    with torch.no_grad():
        w -= 0.5 * w.grad
        b -= 0.5 * b.grad
    if step % 10 == 0:
        print(f"step {step:2d}: loss {loss.item():.4f}")
