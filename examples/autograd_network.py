"""A small network trained with an optimizer: points inside or outside a circle.

`import torch` instead of the line below prints the same.
"""

import math

import tracegrad as torch

# points on a spiral; the class says whether they lie in the circle of radius 1
t = torch.arange(200, dtype=torch.float32) / 200
angle, radius = t * 40.0, 2.0 * t
points = torch.stack([radius * angle.cos(), radius * angle.sin()], dim=1)
inside = (radius < 1.0).float().unsqueeze(1)

model = torch.nn.Sequential(torch.nn.Linear(2, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
with torch.no_grad():  # the same beginning everywhere: random numbers differ between libraries
    for number, parameter in enumerate(model.parameters()):
        places = torch.arange(parameter.numel(), dtype=torch.float32).reshape(parameter.shape)
        parameter.copy_(torch.sin(places * 1.7 + number) / math.sqrt(4.0))

criterion = torch.nn.BCEWithLogitsLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
for epoch in range(101):
    optimizer.zero_grad()
    logits = model(points)
    loss = criterion(logits, inside)
    loss.backward()
    optimizer.step()
    if epoch % 20 == 0:
        right = ((logits > 0) == (inside > 0.5)).float().mean()
        print(f"epoch {epoch:3d}: loss {loss.item():.3f}, right {right.item():.1%}")

print(model)
