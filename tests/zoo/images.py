"""Pictures and grids: stencils, sampling, pooling, projection."""

import numpy as np

from tests.zoo.registry import program


def picture(rng, rows=6, cols=7):
    return rng.random((rows, cols))


@program(lambda rng: (picture(rng),))
def box_blur(img):
    out = np.zeros((img.shape[0] - 2, img.shape[1] - 2))
    for dy in range(3):
        for dx in range(3):
            out += img[dy : dy + out.shape[0], dx : dx + out.shape[1]]
    return out / 9


@program(lambda rng: (picture(rng),))
def laplacian_energy(img):
    lap = img[:-2, 1:-1] + img[2:, 1:-1] + img[1:-1, :-2] + img[1:-1, 2:] - 4 * img[1:-1, 1:-1]
    return 0.5 * np.sum(lap**2)


@program(lambda rng: (picture(rng), 0.2), wrt=(0, 1))
def heat_equation(u, alpha, steps=5):
    u = u.copy()
    for _ in range(steps):
        u[1:-1, 1:-1] += alpha * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1])
    return u


@program(lambda rng: (picture(rng), picture(rng), 0.1), wrt=(0, 2))
def denoising_objective(img, noisy, strength):
    dx = np.diff(img, axis=1)[:-1, :]
    dy = np.diff(img, axis=0)[:, :-1]
    tv = np.sum(np.sqrt(dx**2 + dy**2 + 1e-3))
    return 0.5 * np.sum((img - noisy) ** 2) + strength * tv


@program(lambda rng: (picture(rng, 5, 6), rng.normal(size=(3, 2))), wrt=(0, 1))
def correlate_by_loops(img, kernel):
    kh, kw = kernel.shape
    out = np.zeros((img.shape[0] - kh + 1, img.shape[1] - kw + 1))
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] = np.sum(img[i : i + kh, j : j + kw] * kernel)
    return out


@program(lambda rng: (picture(rng),))
def sobel_sharpness(img):
    gx = img[:-2, 2:] + 2 * img[1:-1, 2:] + img[2:, 2:] - img[:-2, :-2] - 2 * img[1:-1, :-2] - img[2:, :-2]
    gy = img[2:, :-2] + 2 * img[2:, 1:-1] + img[2:, 2:] - img[:-2, :-2] - 2 * img[:-2, 1:-1] - img[:-2, 2:]
    return np.mean(np.hypot(gx, gy))


@program(lambda rng: (picture(rng), np.array([1.3, 3.6, 2.2]), np.array([0.4, 4.7, 5.1])), wrt=(0, 1, 2))
def bilinear_sample(img, ys, xs):
    y0 = np.floor(ys).astype(int)
    x0 = np.floor(xs).astype(int)
    fy, fx = ys - y0, xs - x0
    top = img[y0, x0] * (1 - fx) + img[y0, x0 + 1] * fx
    bottom = img[y0 + 1, x0] * (1 - fx) + img[y0 + 1, x0 + 1] * fx
    return top * (1 - fy) + bottom * fy


@program(lambda rng: (picture(rng, 6, 8),))
def max_pool(img, size=2):
    rows, cols = img.shape[0] // size, img.shape[1] // size
    out = np.zeros((rows, cols))
    for i in range(rows):
        for j in range(cols):
            out[i, j] = img[i * size : (i + 1) * size, j * size : (j + 1) * size].max()
    return out


@program(lambda rng: (picture(rng, 4, 6),))
def mean_pool_by_reshape(img):
    rows, cols = img.shape
    return img.reshape(rows // 2, 2, cols // 3, 3).mean(axis=(1, 3))


@program(lambda rng: (picture(rng, 4, 4),))
def mirrored_smoothness(img):
    padded = np.zeros((img.shape[0] + 2, img.shape[1] + 2))
    padded[1:-1, 1:-1] = img
    padded[0, 1:-1] = img[1]
    padded[-1, 1:-1] = img[-2]
    padded[:, 0] = padded[:, 2]
    padded[:, -1] = padded[:, -3]
    return np.sum((padded[1:-1, 1:-1] - 0.25 * (padded[:-2, 1:-1] + padded[2:, 1:-1] + padded[1:-1, 2:])) ** 2)


@program(lambda rng: (rng.random(10), 0.15), wrt=(0, 1))
def soft_histogram(values, width, bins=5):
    centers = (np.arange(bins) + 0.5) / bins
    weights = np.exp(-0.5 * ((values[:, None] - centers[None, :]) / width) ** 2)
    weights /= weights.sum(axis=1, keepdims=True)
    counts = weights.sum(axis=0)
    p = counts / counts.sum()
    return -np.sum(p * np.log(p))


@program(
    lambda rng: (
        np.array([0.1, -0.2, 0.3]),
        np.array([0.2, -0.1, 5.0]),
        1.4,
        rng.normal(size=(5, 3)),
        rng.normal(size=(5, 2)),
    ),
    wrt=(0, 1, 2),
)
def reprojection_error(rotation, translation, focal, points, pixels):
    """Axis-angle rotation by Rodrigues, then a pinhole camera."""
    theta = np.sqrt(np.sum(rotation**2))
    k = rotation / theta
    cos, sin = np.cos(theta), np.sin(theta)
    total = 0.0
    for p, seen in zip(points, pixels):
        q = p * cos + np.cross(k, p) * sin + k * np.dot(k, p) * (1 - cos) + translation
        r2 = (q[0] ** 2 + q[1] ** 2) / q[2] ** 2
        projected = focal * (1 + 0.1 * r2) * q[:2] / q[2]
        total += np.sum((projected - seen) ** 2)
    return total


@program(lambda rng: (picture(rng, 5, 5),))
def integral_image_box(img):
    S = np.zeros((6, 6))
    S[1:, 1:] = img.cumsum(axis=0).cumsum(axis=1)
    box = S[3:, 3:] - S[:-3, 3:] - S[3:, :-3] + S[:-3, :-3]
    return np.sum(box**2)


@program(lambda rng: (picture(rng, 4, 5) + 0.1, 1.8), wrt=(0, 1))
def gamma_and_contrast(img, gamma):
    out = img**gamma
    low, high = out.min(), out.max()
    out = (out - low) / (high - low)
    return np.std(out)


@program(lambda rng: (picture(rng, 5, 5),))
def erosion(img):
    out = img[1:-1, 1:-1]
    for dy in (-1, 0, 1):
        for dx in (-1, 0, 1):
            out = np.minimum(out, img[1 + dy : 4 + dy, 1 + dx : 4 + dx])
    return out.sum() + img.mean()


@program(lambda rng: (0.1 * rng.normal(size=(6, 2)), rng.random((6, 3))), wrt=(0, 1))
def splat_onto_grid(shift, colors):
    """Deposit coloured points on the two nearest cells of a line."""
    grid = np.zeros((8, 3))
    position = np.arange(6) + 0.6 + shift[:, 0]
    cell = np.floor(position).astype(int)
    frac = position - cell
    np.add.at(grid, cell, (1 - frac)[:, None] * colors)
    np.add.at(grid, cell + 1, frac[:, None] * colors)
    return np.sum(grid**2) + np.sum(shift[:, 1] ** 2)


@program(lambda rng: (picture(rng, 4, 4),))
def symmetry_score(img):
    horizontal = img - img[:, ::-1]
    vertical = img - np.flipud(img)
    rotated = img - np.rot90(img)
    return np.sum(horizontal**2) + np.sum(vertical**2) + 0.5 * np.sum(rotated**2)
