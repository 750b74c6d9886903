"""Gradients add up in `.grad` until they are reset.

`import torch` instead of the line below prints the same.
"""

import tracegrad as torch

x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
print("before any backward:", x.grad)

for turn in range(3):
    loss = (x**2).sum()
    loss.backward()
    print(f"after backward number {turn + 1}:", x.grad)

x.grad.zero_()
print("after zero_():", x.grad)
(x**2).sum().backward()
print("once more:", x.grad)
x.grad = None
print("after x.grad = None:", x.grad)

# what accumulation is for: a batch in two halves gives the gradient of the whole
data = torch.tensor([[1.0, 0.0, 2.0], [0.0, 1.0, 1.0], [3.0, 1.0, 0.0], [1.0, 1.0, 1.0]])
(data @ x).square().sum().backward()
whole = x.grad
x.grad = None
for half in data.split(2):
    (half @ x).square().sum().backward()
print("whole batch:", whole)
print("two halves: ", x.grad)
