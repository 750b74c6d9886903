"""Parts of a computation that are not recorded: no_grad, detach, inference_mode.

`import torch` instead of the line below prints the same.
"""

import tracegrad as torch

w = torch.tensor([[1.0, -2.0], [0.5, 3.0]], requires_grad=True)
x = torch.tensor([1.0, 2.0])

z = w @ x
print("recorded:", z.requires_grad, z)
with torch.no_grad():
    z = w @ x
print("in no_grad:", z.requires_grad, z)

z = w @ x
fixed = z.detach()
print("detached:", fixed.requires_grad, "same memory:", fixed.data_ptr() == z.data_ptr())

# a target that must not be trained: the gradient goes through one factor only
loss = (z * fixed).sum()
loss.backward()
print("w.grad =", w.grad)


@torch.no_grad()
def predict(x):
    return (w @ x).relu()


print("decorated:", predict(x), predict(x).requires_grad)

# frozen parameters
a = torch.tensor(2.0, requires_grad=True)
b = torch.tensor(3.0, requires_grad=True)
b.requires_grad_(False)
(a * b).backward()
print("a.grad =", a.grad, " b.grad =", b.grad)

with torch.inference_mode():
    y = x * 2
print("inference tensor:", y.is_inference())
try:
    (w @ y).sum().backward()
except RuntimeError as error:
    print("RuntimeError:", str(error).split(".")[0])
