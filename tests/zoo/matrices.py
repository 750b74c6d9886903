"""Linear algebra, much of it by hand."""

import numpy as np

from tests.zoo.registry import program


def spd(rng, n=4):
    a = rng.normal(size=(n, n))
    return a @ a.T + n * np.eye(n)


@program(lambda rng: (spd(rng),))
def cholesky_by_hand(A):
    n = A.shape[0]
    L = np.zeros((n, n))
    for j in range(n):
        s = A[j, j]
        for k in range(j):
            s -= L[j, k] ** 2
        L[j, j] = np.sqrt(s)
        for i in range(j + 1, n):
            s = A[i, j]
            for k in range(j):
                s -= L[i, k] * L[j, k]
            L[i, j] = s / L[j, j]
    return L


@program(lambda rng: (rng.normal(size=(4, 4)) + 3 * np.eye(4),))
def determinant_by_lu(A):
    U = A.copy()
    n = len(U)
    det = 1.0
    for k in range(n):
        det *= U[k, k]
        for i in range(k + 1, n):
            factor = U[i, k] / U[k, k]
            U[i, k:] -= factor * U[k, k:]
    return det


@program(lambda rng: (rng.normal(size=(4, 4)),))
def determinant_with_pivoting(A):
    U = A.copy()
    n = U.shape[0]
    sign = 1.0
    for k in range(n - 1):
        p = k + np.argmax(np.abs(U[k:, k]))
        if p != k:
            U[[k, p]] = U[[p, k]]
            sign = -sign
        for i in range(k + 1, n):
            U[i] = U[i] - U[i, k] / U[k, k] * U[k]
    return sign * np.prod(np.diag(U))


@program(lambda rng: (rng.normal(size=(5, 3)),))
def gram_schmidt(V):
    Q = np.zeros_like(V)
    for j in range(V.shape[1]):
        q = V[:, j]
        for i in range(j):
            q = q - (Q[:, i] @ q) * Q[:, i]
        Q[:, j] = q / np.linalg.norm(q)
    return Q


@program(lambda rng: (0.3 * rng.normal(size=(3, 3)),))
def matrix_exponential(A):
    term = np.eye(3)
    total = np.eye(3)
    k = 1
    while np.max(np.abs(term)) > 1e-17:
        term = term @ A / k
        total = total + term
        k += 1
    return total


@program(lambda rng: (rng.normal(size=(3, 3)), rng.normal(size=3)), wrt=(0, 1))
def matrix_power_times_vector(A, x, n=6):
    A = A / np.sqrt(np.sum(A**2))
    for _ in range(n):
        x = A @ x
    return x


def minor(M, j):
    rows = []
    for row in M[1:]:
        rows.append(row[:j] + row[j + 1 :])
    return rows


@program(lambda rng: (rng.normal(size=(4, 4)),))
def determinant_by_cofactors(A):
    def det(M):
        if len(M) == 1:
            return M[0][0]
        return sum((-1) ** j * M[0][j] * det(minor(M, j)) for j in range(len(M)))

    return det([[A[i, j] for j in range(4)] for i in range(4)])


@program(lambda rng: (np.tril(rng.normal(size=(5, 5))) + 3 * np.eye(5), rng.normal(size=5)), wrt=(0, 1))
def forward_substitution(L, b):
    x = np.zeros_like(b)
    for i in range(len(b)):
        x[i] = (b[i] - L[i, :i] @ x[:i]) / L[i, i]
    return x


@program(lambda rng: (rng.normal(size=(4, 3)),))
def householder_triangle(A):
    R = A.copy()
    m, n = R.shape
    for k in range(n):
        x = R[k:, k]
        v = x.copy()
        v[0] += np.sign(x[0]) * np.linalg.norm(x)
        v = v / np.linalg.norm(v)
        R[k:, k:] -= 2 * np.outer(v, v @ R[k:, k:])
    return np.triu(R[:n])


@program(lambda rng: (spd(rng, 3),))
def inverse_by_newton_schulz(A):
    X = A.T / (np.max(np.sum(np.abs(A), axis=0)) * np.max(np.sum(np.abs(A), axis=1)))
    I = np.eye(3)
    residual = I - A @ X
    while np.linalg.norm(residual) > 1e-12:
        X = X @ (I + residual)
        residual = I - A @ X
    return X


@program(lambda rng: (0.3 * rng.normal(size=(3, 3)), spd(rng, 3)), wrt=(0, 1))
def discrete_lyapunov(A, Q):
    X = Q
    for _ in range(20):
        X = A @ X @ A.T + Q
    return np.trace(X)


@program(lambda rng: (rng.random((3, 3)) + 0.2,))
def stationary_distribution(weights):
    P = weights / weights.sum(axis=1, keepdims=True)
    A = np.vstack([(P.T - np.eye(3))[:-1], np.ones(3)])
    return np.linalg.solve(A, np.array([0.0, 0.0, 1.0]))


@program(lambda rng: (rng.normal(size=(2, 3)), rng.normal(size=(3, 2)), rng.normal(size=(2, 2))), wrt=(0, 1, 2))
def kronecker_form(A, B, C):
    K = np.kron(A @ B, C)
    v = np.arange(1.0, 5.0)
    return v @ K @ v


@program(lambda rng: (rng.normal(size=(4, 3)),))
def triangle_areas(vertices):
    total = 0.0
    for i in range(2):
        u = vertices[i + 1] - vertices[i]
        v = vertices[i + 2] - vertices[i]
        total += 0.5 * np.linalg.norm(np.cross(u, v))
    return total


@program(lambda rng: (rng.normal(size=(4, 5)), rng.normal(size=(4, 5)), rng.normal(size=(4, 2))), wrt=(0, 1, 2))
def attention(q, k, v):
    scores = np.einsum("id,jd->ij", q, k) / np.sqrt(q.shape[-1])
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = weights / weights.sum(axis=-1, keepdims=True)
    return weights @ v


@program(lambda rng: (rng.normal(size=(3, 4)), rng.normal(size=(4, 2)), rng.normal(size=(2, 3))), wrt=(0, 1, 2))
def tensor_contractions(A, B, C):
    first = np.tensordot(A, B, axes=1)
    second = np.einsum("ij,jk,ki->", A, B, C)
    third = np.tensordot(A, A, axes=([0, 1], [0, 1]))
    return np.sum(first**2) + second + third


@program(lambda rng: (rng.normal(size=(2, 3, 3)) + 2 * np.eye(3), rng.normal(size=(2, 3))), wrt=(0, 1))
def batched_solve(A, b):
    x = np.linalg.solve(A, b[..., None])[..., 0]
    return np.sum(x**2) + np.log(np.abs(np.linalg.det(A))).sum()


@program(lambda rng: (spd(rng, 3), rng.normal(size=3)), wrt=(0, 1))
def woodbury_residual(A, u):
    inv = np.linalg.inv(A)
    corrected = inv - np.outer(inv @ u, u @ inv) / (1 + u @ inv @ u)
    return np.linalg.norm(corrected) + np.trace(corrected)


@program(lambda rng: (np.array([2.0, 3.0, 2.5, 3.5]), np.array([0.5, -0.3, 0.4]), rng.normal(size=4)), wrt=(0, 1, 2))
def thomas_algorithm(diag, off, rhs):
    n = len(diag)
    d, y = diag.copy(), rhs.copy()
    for i in range(1, n):
        w = off[i - 1] / d[i - 1]
        d[i] -= w * off[i - 1]
        y[i] -= w * y[i - 1]
    x = np.zeros(n)
    x[-1] = y[-1] / d[-1]
    for i in range(n - 2, -1, -1):
        x[i] = (y[i] - off[i] * x[i + 1]) / d[i]
    return x


@program(lambda rng: (rng.normal(size=4),))
def toeplitz_quadratic(c):
    n = len(c)
    T = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            T[i, j] = c[abs(i - j)]
    return np.linalg.norm(T, "fro") ** 2 + np.sum(T @ np.ones(n))


@program(lambda rng: (rng.normal(size=5), 1.3), wrt=(0, 1))
def horner(coefficients, x):
    value = 0.0
    for c in coefficients[::-1]:
        value = value * x + c
    return value


@program(lambda rng: (rng.normal(size=(5, 2)), np.array([1.0, 2.0, 0.5, 1.5, 1.0])), wrt=(0, 1))
def weighted_procrustes_cost(points, weights):
    center = np.average(points, axis=0, weights=weights)
    p = points - center
    S = (weights[:, None] * p).T @ p
    gap = np.sqrt((S[0, 0] - S[1, 1]) ** 2 + 4 * S[0, 1] ** 2)
    return 0.5 * (np.trace(S) - gap)


@program(lambda rng: (rng.normal(size=(5, 3)),))
def pairwise_distance_energy(x):
    d2 = np.sum((x[:, None, :] - x[None, :, :]) ** 2, axis=-1)
    upper = np.triu(1 / (1 + d2), k=1)
    return upper.sum()


@program(lambda rng: (rng.normal(size=(8, 4)),))
def principal_components(x, k=2):
    centered = x - x.mean(axis=0)
    values, vectors = np.linalg.eigh(centered.T @ centered / (len(x) - 1))
    scores = centered @ vectors[:, ::-1][:, :k]
    return np.sum(scores**2, axis=0), values[::-1][:k] / values.sum()


@program(lambda rng: (rng.normal(size=(8, 4)),))
def truncated_svd_error(x, k=2):
    u, s, vh = np.linalg.svd(x - x.mean(axis=0), full_matrices=False)
    low = (u[:, :k] * s[:k]) @ vh[:k]
    return np.sum(np.abs(x - low) ** 3)


@program(lambda rng: (rng.normal(size=(7, 3)), rng.normal(size=7)), wrt=(0, 1))
def least_squares_by_qr(A, b):
    Q, R = np.linalg.qr(A)
    x = np.linalg.solve(R, Q.T @ b)
    return np.sum((A @ x - b) ** 2) + np.sum(np.sin(x))


@program(lambda rng: (rng.normal(size=(7, 3)), rng.normal(size=7)), wrt=(0, 1))
def least_squares_fit(A, b):
    x, residual, rank, singular = np.linalg.lstsq(A, b, rcond=None)
    return x * rank, residual, singular.max() / singular.min()


@program(lambda rng: (np.linspace(-1, 1, 9), rng.normal(size=9)), wrt=(0, 1))
def quadratic_trend(t, y):
    c = np.polyfit(t, y, 2)
    return np.sum((np.polyval(c, t) - y) ** 2)


@program(lambda rng: (rng.normal(size=(4, 3)),))
def nuclear_norm_of_product(A):
    return np.linalg.norm(A @ A.T @ A, "nuc") + np.linalg.norm(A, 2)


@program(lambda rng: (rng.normal(size=(4, 4)) + 2 * np.eye(4),))
def log_condition(A):
    return np.log(np.linalg.cond(A)) + 0.1 * np.log(np.linalg.cond(A, 1))


@program(lambda rng: (rng.normal(size=(5, 5)), rng.normal(size=(5, 3))), wrt=(0, 1))
def orthogonal_procrustes(A, B):
    u, s, vh = np.linalg.svd(A.T[:3] @ B)
    R = u @ vh
    return np.sum((A[:, :3] @ R - B) ** 2) + s.sum()


@program(lambda rng: (rng.normal(size=(6, 3)) * np.array([4.0, 2.0, 0.5]),))
def plane_normal(points):
    centered = points - points.mean(axis=0)
    normal = np.linalg.svd(centered)[2][-1]
    return np.sum((centered @ normal) ** 2) + normal[0] ** 2


@program(lambda rng: (spd(rng),))
def matrix_square_root(A):
    w, v = np.linalg.eigh(A)
    root = (v * np.sqrt(w)) @ v.T
    return root, np.linalg.eigvalsh(A @ A)


@program(lambda rng: (rng.random((5, 5)),))
def fiedler_cut(weights):
    W = np.triu(weights, 1)
    W = W + W.T
    laplacian = np.diag(W.sum(axis=1)) - W
    values, vectors = np.linalg.eigh(laplacian)
    return values[1] + np.sum(vectors[:, 1] ** 4)


@program(lambda rng: (rng.normal(size=(3, 4, 2)), rng.normal(size=(3, 4))), wrt=(0, 1))
def batched_pseudoinverse(A, b):
    x = np.linalg.pinv(A) @ b[..., None]
    return np.sum(x**2, axis=(1, 2)), np.linalg.svd(A, compute_uv=False)


@program(lambda rng: (rng.normal(size=(3, 3)), rng.normal(size=3)), wrt=(0, 1))
def orthogonal_iteration(A, x):
    S = A @ A.T + np.diag([1.0, 3.0, 6.0])
    Q = np.eye(3)
    for _ in range(10):
        Q, R = np.linalg.qr(S @ Q)
    return np.diag(R) + Q.T @ x
