"""Statistics: likelihoods, estimators and the like, as people write them in notebooks."""

import math

import numpy as np

from tests.zoo.registry import program

LOG_2PI = math.log(2.0 * math.pi)


def logsumexp(a, axis=None):
    m = np.max(a, axis=axis, keepdims=True)
    out = m + np.log(np.sum(np.exp(a - m), axis=axis, keepdims=True))
    return np.squeeze(out, axis=axis)


@program(lambda rng: (rng.normal(size=4), rng.normal(size=(12, 4)), (rng.random(12) > 0.5).astype(float)))
def logistic_nll(beta, X, y):
    eta = X @ beta
    return np.sum(np.log1p(np.exp(eta)) - y * eta)


@program(lambda rng: ({"intercept": 0.3, "slope": np.array([0.5, -0.2])}, rng.normal(size=(9, 2)), rng.poisson(2.0, 9)))
def poisson_nll(params, X, counts):
    eta = params["intercept"] + X @ params["slope"]
    total = 0.0
    for i in range(len(counts)):
        total += np.exp(eta[i]) - counts[i] * eta[i] + math.lgamma(counts[i] + 1.0)
    return total / len(counts)


@program(lambda rng: (np.array([0.2, -0.1, 1.3]), rng.standard_t(4, size=15)))
def student_t_nll(theta, y):
    mu, log_scale, log_nu = theta
    nu = math.exp(log_nu)
    scale = math.exp(log_scale)
    z = (y - mu) / scale
    const = math.lgamma((nu + 1) / 2) - math.lgamma(nu / 2) - 0.5 * math.log(nu * math.pi) - log_scale
    return -np.sum(const - (nu + 1) / 2 * np.log1p(z**2 / nu))


@program(
    lambda rng: (
        {"logits": rng.normal(size=3), "means": np.array([-1.5, 0.1, 2.0]), "log_sd": 0.1 * rng.normal(size=3)},
        rng.normal(size=14),
    )
)
def mixture_nll(params, y):
    log_w = params["logits"] - logsumexp(params["logits"])
    sd = np.exp(params["log_sd"])
    z = (y[:, None] - params["means"]) / sd
    log_p = log_w - 0.5 * z**2 - params["log_sd"] - 0.5 * LOG_2PI
    return -np.mean(logsumexp(log_p, axis=1))


@program(lambda rng: (np.array([0.1, 0.15, 0.7]), rng.normal(size=25)))
def garch_nll(theta, returns):
    omega, alpha, beta = theta[0], theta[1], theta[2]
    n = len(returns)
    sigma2 = np.zeros(n)
    sigma2[0] = np.var(returns)
    for t in range(1, n):
        sigma2[t] = omega + alpha * returns[t - 1] ** 2 + beta * sigma2[t - 1]
    return 0.5 * np.sum(np.log(2 * np.pi * sigma2) + returns**2 / sigma2)


@program(lambda rng: (np.array([0.4, -0.3, 0.1]), 0.2, rng.normal(size=20)), wrt=(0, 1))
def autoregression_nll(phi, log_sigma, y):
    p = len(phi)
    sse = 0.0
    for t in range(p, len(y)):
        prediction = 0.0
        for lag in range(p):
            prediction += phi[lag] * y[t - 1 - lag]
        sse += (y[t] - prediction) ** 2
    n = len(y) - p
    return 0.5 * sse / np.exp(2 * log_sigma) + n * log_sigma


@program(lambda rng: (np.log([0.3, 0.5]), np.cumsum(rng.normal(size=12))))
def kalman_nll(log_variances, y):
    q, r = np.exp(log_variances)
    F = np.array([[1.0, 1.0], [0.0, 1.0]])
    H = np.array([[1.0, 0.0]])
    Q = q * np.array([[1 / 3, 1 / 2], [1 / 2, 1.0]])
    m = np.zeros(2)
    P = 10.0 * np.eye(2)
    nll = 0.0
    for obs in y:
        m = F @ m
        P = F @ P @ F.T + Q
        S = H @ P @ H.T + r
        v = obs - H @ m
        K = np.linalg.solve(S, H @ P).T
        m = m + K @ v
        P = P - K @ S @ K.T
        nll = nll + 0.5 * (np.log(2 * np.pi * S[0, 0]) + v[0] ** 2 / S[0, 0])
    return nll


@program(lambda rng: (rng.normal(size=(3, 3)), np.array([-1.0, 0.0, 1.2]), rng.normal(size=10)), wrt=(0, 1))
def hidden_markov_nll(logits, means, y):
    A = np.exp(logits)
    A = A / A.sum(axis=1, keepdims=True)
    alpha = np.ones(3) / 3
    loglik = 0.0
    for t in range(y.shape[0]):
        if t > 0:
            alpha = alpha @ A
        alpha = alpha * np.exp(-0.5 * (y[t] - means) ** 2) / np.sqrt(2 * np.pi)
        c = alpha.sum()
        loglik += np.log(c)
        alpha = alpha / c
    return -loglik


@program(lambda rng: (1.4, 2.2, [(3, 10), (5, 8), (0, 6), (7, 7)]), wrt=(0, 1))
def beta_binomial_nll(a, b, data):
    def log_beta(x, y):
        return math.lgamma(x) + math.lgamma(y) - math.lgamma(x + y)

    return -sum(log_beta(k + a, n - k + b) - log_beta(a, b) for k, n in data)


@program(lambda rng: (-0.7, rng.normal(size=(10, 3)), rng.normal(size=10), rng.normal(size=(6, 3)), rng.normal(size=6)))
def ridge_validation_error(log_lambda, X, y, X_val, y_val):
    lam = np.exp(log_lambda)
    w = np.linalg.solve(X.T @ X + lam * np.eye(X.shape[1]), X.T @ y)
    return np.mean((X_val @ w - y_val) ** 2)


@program(lambda rng: (np.array([0.1, -0.3, -1.0]), np.linspace(0, 3, 7), rng.normal(size=7)), rtol=1e-6)
def gaussian_process_nll(theta, x, y):
    amplitude, length, noise = np.exp(theta)
    d = x[:, None] - x[None, :]
    K = amplitude**2 * np.exp(-0.5 * (d / length) ** 2) + noise**2 * np.eye(len(x))
    L = np.linalg.cholesky(K)
    alpha = np.linalg.solve(L.T, np.linalg.solve(L, y))
    return 0.5 * y @ alpha + np.sum(np.log(np.diag(L))) + 0.5 * len(x) * LOG_2PI


@program(lambda rng: (np.array([0.5, 1.0]), np.linspace(-2, 2, 9), 2.5 * rng.normal(size=9)))
def huber_regression(coef, x, y, delta=1.1):
    r = y - (coef[0] + coef[1] * x)
    a = np.abs(r)
    return np.sum(np.where(a <= delta, 0.5 * r**2, delta * (a - 0.5 * delta)))


@program(lambda rng: (rng.normal(size=(4, 3)), rng.normal(size=(8, 4)), rng.integers(0, 3, 8)))
def softmax_regression(W, X, labels):
    scores = X @ W
    scores = scores - scores.max(axis=1, keepdims=True)
    log_p = scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
    return -log_p[np.arange(len(labels)), labels].mean()


@program(lambda rng: ({"shape": 1.3, "scale": 2.1}, rng.exponential(2.0, 10) + 0.1, rng.random(10) < 0.7))
def weibull_survival_nll(params, times, observed):
    k, lam = params["shape"], params["scale"]
    log_hazard = np.log(k / lam) + (k - 1) * np.log(times / lam)
    cumulative = (times / lam) ** k
    return -(np.sum(log_hazard[observed]) - np.sum(cumulative))


@program(lambda rng: (rng.normal(size=2), rng.normal(size=(8, 2)), np.array([1, 0, 1, 1, 0, 1, 1, 0])))
def cox_partial_likelihood(beta, X, event):
    """Rows are sorted by time, so the risk set of a row is the rows after it."""
    eta = X @ beta
    at_risk = np.cumsum(np.exp(eta)[::-1])[::-1]
    return -np.sum(event * (eta - np.log(at_risk)))


@program(lambda rng: (-0.5, rng.normal(size=7)), wrt=(0, 1))
def leave_one_out_density(log_bandwidth, x):
    h = np.exp(log_bandwidth)
    n = len(x)
    score = 0.0
    for i in range(n):
        density = 0.0
        for j in range(n):
            if i == j:
                continue
            density += math.exp(-0.5 * ((x[i] - x[j]) / h) ** 2)
        score += math.log(density / ((n - 1) * h * math.sqrt(2 * math.pi)))
    return -score / n


@program(
    lambda rng: (rng.normal(size=3), np.array([0.2, 0.3, -0.1, -0.2, 0.4, 0.1]), rng.normal(size=(6, 3))), wrt=(0, 1)
)
def multivariate_normal_nll(mean, packed, data):
    d = len(mean)
    L = np.zeros((d, d))
    L[np.tril_indices(d)] = packed
    for i in range(d):
        L[i, i] = np.exp(L[i, i])
    cov = L @ L.T
    sign, logdet = np.linalg.slogdet(cov)
    diff = data - mean
    maha = np.einsum("ni,ni->", diff, np.linalg.solve(cov, diff.T).T)
    return 0.5 * (maha + len(data) * (logdet + d * LOG_2PI))


@program(lambda rng: (np.array([0.3, 0.8]), rng.normal(size=11), rng.normal(size=11)))
def pinball_loss(coef, x, y, tau=0.3):
    r = y - coef[0] - coef[1] * x
    return np.mean(np.maximum(tau * r, (tau - 1) * r))


@program(lambda rng: (np.array([0.2, -0.6]), [(0.5, 1), (-1.2, 0), (0.3, 0), (2.0, 1), (-0.1, 1)]))
def probit_nll(beta, data):
    total = 0.0
    for x, label in data:
        p = 0.5 * (1 + math.erf((beta[0] + beta[1] * x) / math.sqrt(2)))
        if label == 1:
            total -= math.log(p)
        else:
            total -= math.log(1 - p)
    return total


@program(lambda rng: (rng.normal(size=10),))
def streaming_variance(x):
    """Welford's update, one observation at a time."""
    mean, m2, n = 0.0, 0.0, 0
    for value in x:
        n += 1
        delta = value - mean
        mean += delta / n
        m2 += delta * (value - mean)
    return m2 / (n - 1)


@program(lambda rng: (rng.normal(size=(9, 3)),))
def correlations(data):
    z = (data - data.mean(axis=0)) / data.std(axis=0, ddof=1)
    return z.T @ z / (len(data) - 1)


@program(lambda rng: (rng.normal(size=11),))
def trimmed_mean(x, cut=2):
    ordered = np.sort(x)
    return ordered[cut:-cut].mean()


@program(
    lambda rng: (np.array([-1.0, 1.5]), np.concatenate([rng.normal(-1, 0.5, 6), rng.normal(1.4, 0.5, 6)])), wrt=(0, 1)
)
def mixture_by_em(means, x):
    weights = np.array([0.5, 0.5])
    for _ in range(6):
        like = weights * np.exp(-0.5 * (x[:, None] - means) ** 2)
        resp = like / like.sum(axis=1, keepdims=True)
        nk = resp.sum(axis=0)
        means = (resp * x[:, None]).sum(axis=0) / nk
        weights = nk / len(x)
    return means


@program(lambda rng: (np.array([0.3, -0.2, 0.5]), rng.normal(size=(3, 6)), rng.integers(0, 2, (3, 6))))
def item_response_nll(ability, difficulty, answers):
    total = 0.0
    for person, theta in enumerate(ability):
        for item in range(difficulty.shape[1]):
            p = 1 / (1 + math.exp(-(theta - difficulty[person, item])))
            total -= math.log(p) if answers[person, item] else math.log(1 - p)
    return total


@program(lambda rng: (np.array([0.4, 0.2, -0.3]), rng.normal(size=30)))
def moving_average_nll(theta, y):
    """MA(2) with residuals by recursion; the last entry is log sigma."""
    e = np.zeros(len(y) + 2)
    for t in range(len(y)):
        e[t + 2] = y[t] - theta[0] * e[t + 1] - theta[1] * e[t]
    return np.sum(e[2:] ** 2) * np.exp(-2 * theta[2]) / 2 + len(y) * theta[2]


@program(lambda rng: (rng.normal(size=4), rng.normal(size=(4, 4))))
def bradley_terry_nll(x, pairs):
    loss = 0.0
    for i in range(4):
        for j in range(i + 1, 4):
            margin = x[i] - x[j]
            if pairs[i, j] > 0:
                loss += np.log1p(np.exp(-margin))
            else:
                loss += np.log1p(np.exp(margin))
    return loss


@program(lambda rng: (np.append(rng.normal(size=20), [6.0, -7.5]),))
def mean_without_outliers(x):
    """Mean and spread of what lies within the whiskers of a box plot."""
    low, high = np.percentile(x, [25, 75])
    reach = 1.5 * (high - low)
    kept = [v for v in x if low - reach <= v <= high + reach]
    mean = sum(kept) / len(kept)
    return mean + 0.1 * math.sqrt(sum((v - mean) ** 2 for v in kept) / (len(kept) - 1))


@program(lambda rng: (rng.normal(size=(15, 2)), np.array([0.1, -0.2])), wrt=(0, 1))
def nearest_point(points, query):
    """Distance to the nearest point, and to the mean of those within reach of it."""
    best = np.inf
    for i, p in enumerate(points):
        d = np.sum((p - query) ** 2)
        if d < best:
            best = d
            nearest = i
    near = [p for p in points if np.sum((p - points[nearest]) ** 2) < 1.0]
    return best + np.sum((np.mean(np.array(near), axis=0) - query) ** 2)
