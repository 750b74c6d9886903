"""Prices, paths and plans."""

import math

import numpy as np

from tests.zoo.registry import program


def norm_cdf(x):
    return 0.5 * (1.0 + math.erf(x / math.sqrt(2.0)))


@program(lambda rng: (100.0, 105.0, 0.02, 0.25, 1.5), wrt=(0, 1, 2, 3, 4))
def black_scholes_call(spot, strike, rate, vol, expiry):
    d1 = (math.log(spot / strike) + (rate + vol**2 / 2) * expiry) / (vol * math.sqrt(expiry))
    d2 = d1 - vol * math.sqrt(expiry)
    return spot * norm_cdf(d1) - strike * math.exp(-rate * expiry) * norm_cdf(d2)


@program(lambda rng: (9.7, 100.0), wrt=(0, 1), rtol=1e-6)
def implied_volatility(price, spot, strike=103.0, expiry=1.0):
    vol = 0.2
    for _ in range(50):
        d1 = math.log(spot / strike) / (vol * math.sqrt(expiry)) + 0.5 * vol * math.sqrt(expiry)
        d2 = d1 - vol * math.sqrt(expiry)
        model = spot * norm_cdf(d1) - strike * norm_cdf(d2)
        vega = spot * math.sqrt(expiry) * math.exp(-0.5 * d1 * d1) / math.sqrt(2 * math.pi)
        diff = model - price
        if abs(diff) < 1e-13 * spot:
            break
        vol = vol - diff / vega
    return vol


@program(lambda rng: (100.0, 0.3, 0.03), wrt=(0, 1, 2))
def binomial_european(spot, vol, rate, strike=98.7, expiry=1.0, n=12):
    dt = expiry / n
    u = np.exp(vol * np.sqrt(dt))
    d = 1 / u
    q = (np.exp(rate * dt) - d) / (u - d)
    values = np.zeros(n + 1)
    for j in range(n + 1):
        values[j] = np.maximum(spot * u**j * d ** (n - j) - strike, 0.0)
    for i in range(n - 1, -1, -1):
        for j in range(i + 1):
            values[j] = np.exp(-rate * dt) * (q * values[j + 1] + (1 - q) * values[j])
    return values[0]


@program(lambda rng: (100.0, 0.3), wrt=(0, 1))
def american_put(spot, vol, rate=0.05, strike=103.3, n=8):
    dt = 1.0 / n
    u = math.exp(vol * math.sqrt(dt))
    p = (math.exp(rate * dt) - 1 / u) / (u - 1 / u)
    prices = spot * u ** np.arange(-n, n + 1, 2)
    value = np.maximum(strike - prices, 0)
    for step in range(n - 1, -1, -1):
        value = math.exp(-rate * dt) * (p * value[1:] + (1 - p) * value[:-1])
        prices = prices[1:] / u
        value = np.where(strike - prices > value, strike - prices, value)
    return value[0]


@program(lambda rng: (100.0, 0.2, rng.normal(size=(6, 8))), wrt=(0, 1))
def asian_option(spot, vol, normals, rate=0.01, strike=99.0):
    paths, steps = normals.shape
    dt = 1.0 / steps
    payoff = 0.0
    for p in range(paths):
        s = spot
        total = 0.0
        for k in range(steps):
            s = s * np.exp((rate - 0.5 * vol**2) * dt + vol * np.sqrt(dt) * normals[p, k])
            total = total + s
        average = total / steps
        if average > strike:
            payoff += average - strike
    return np.exp(-rate) * payoff / paths


@program(
    lambda rng: ({"kappa": 1.5, "theta": 0.04, "xi": 0.3, "rho": -0.6}, 0.05, rng.normal(size=(2, 10))), wrt=(0, 1)
)
def heston_path(model, v0, z, dt=0.05):
    log_s, v = 0.0, v0
    z2 = model["rho"] * z[0] + np.sqrt(1 - model["rho"] ** 2) * z[1]
    for k in range(z.shape[1]):
        vol = np.sqrt(np.maximum(v, 1e-8))
        log_s += -0.5 * v * dt + vol * np.sqrt(dt) * z[0, k]
        v += model["kappa"] * (model["theta"] - v) * dt + model["xi"] * vol * np.sqrt(dt) * z2[k]
    return np.exp(log_s) + v


@program(lambda rng: (101.3, np.array([4.0, 4.0, 4.0, 104.0])), wrt=(0, 1))
def yield_to_maturity(price, cash_flows):
    y = 0.05
    change = 1.0
    while abs(change) > 1e-14:
        value, slope = 0.0, 0.0
        for t, c in enumerate(cash_flows, start=1):
            value += c / (1 + y) ** t
            slope -= t * c / (1 + y) ** (t + 1)
        change = (value - price) / slope
        y -= change
    return y


@program(
    lambda rng: (np.array([0.2, 0.5, 0.3]), np.array([0.05, 0.08, 0.03]), 0.1 * rng.normal(size=(3, 3))), wrt=(0, 1, 2)
)
def sharpe_ratio(weights, mean, factors):
    w = weights / np.sum(weights)
    cov = factors @ factors.T + 0.01 * np.eye(3)
    return (w @ mean - 0.01) / np.sqrt(w @ cov @ w)


@program(lambda rng: (0.02 * rng.normal(size=12),))
def max_drawdown(returns):
    wealth, peak, worst = 1.0, 1.0, 0.0
    for r in returns:
        wealth = wealth * (1 + r)
        peak = max(peak, wealth)
        worst = min(worst, wealth / peak - 1)
    return worst


@program(
    lambda rng: (
        np.array([0.03, -0.01, 0.02, 1.5]),
        np.array([0.5, 1, 2, 5, 10.0]),
        np.array([2, 2.2, 2.5, 2.9, 3.0]) / 100,
    )
)
def nelson_siegel_misfit(theta, maturities, yields):
    b0, b1, b2, tau = theta
    x = maturities / tau
    slope = -np.expm1(-x) / x
    fitted = b0 + b1 * slope + b2 * (slope - np.exp(-x))
    return 1e4 * np.sum((fitted - yields) ** 2)


@program(lambda rng: (1000.0, 0.01, 90.0), wrt=(0, 1, 2))
def loan_interest(balance, rate, payment):
    interest_paid = 0.0
    months = 0
    while balance > 0:
        interest = balance * rate
        interest_paid += interest
        if balance + interest <= payment:
            break
        balance = balance + interest - payment
        months += 1
    return interest_paid + 0.1 * balance


@program(lambda rng: (np.array([[1.0, 0.1], [0.0, 1.0]]), np.array([[0.0], [0.1]]), 0.5), wrt=(0, 1, 2))
def lqr_cost(A, B, r, horizon=10):
    """Riccati recursion backwards in time, then the cost from a fixed start."""
    Q = np.diag([1.0, 0.2])
    P = Q
    for _ in range(horizon):
        K = np.linalg.solve(np.array([[r]]) + B.T @ P @ B, B.T @ P @ A)
        P = Q + A.T @ P @ (A - B @ K)
    x0 = np.array([1.0, -0.5])
    return x0 @ P @ x0


@program(lambda rng: (0.95, 2.0), wrt=(0, 1))
def consumption_plan(beta, risk_aversion, periods=6):
    """Cash on hand 10; the Euler equation fixes growth, the budget fixes the level."""
    growth = (beta * 1.04) ** (1 / risk_aversion)
    present_value = 0.0
    for t in range(periods):
        present_value += (growth / 1.04) ** t
    c = 10.0 / present_value
    utility = 0.0
    for t in range(periods):
        utility += beta**t * c ** (1 - risk_aversion) / (1 - risk_aversion)
        c *= growth
    return utility


@program(lambda rng: (rng.normal(size=(5, 4)),))
def soft_shortest_path(cost, gamma=0.5):
    """Cheapest path through a grid, right or down, with a soft minimum."""
    rows, cols = cost.shape
    D = np.full((rows, cols), 0.0)
    for i in range(rows):
        for j in range(cols):
            if i == 0 and j == 0:
                D[i, j] = cost[i, j]
            elif i == 0:
                D[i, j] = D[i, j - 1] + cost[i, j]
            elif j == 0:
                D[i, j] = D[i - 1, j] + cost[i, j]
            else:
                best = -gamma * np.log(np.exp(-D[i - 1, j] / gamma) + np.exp(-D[i, j - 1] / gamma))
                D[i, j] = best + cost[i, j]
    return D[-1, -1]


def softmin(a, b, c, gamma):
    m = min(a, min(b, c))
    return m - gamma * np.log(np.exp((m - a) / gamma) + np.exp((m - b) / gamma) + np.exp((m - c) / gamma))


@program(lambda rng: (rng.normal(size=5), rng.normal(size=4)), wrt=(0, 1))
def soft_edit_distance(a, b, gamma=0.4):
    n, m = len(a), len(b)
    D = np.zeros((n + 1, m + 1))
    D[:, 0] = np.arange(n + 1)
    D[0, :] = np.arange(m + 1)
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            swap = D[i - 1, j - 1] + np.tanh((a[i - 1] - b[j - 1]) ** 2)
            D[i, j] = softmin(D[i - 1, j] + 1, D[i, j - 1] + 1, swap, gamma)
    return D[n, m]


@program(lambda rng: (rng.normal(size=(6, 3)), rng.normal(size=(3, 3))), wrt=(0, 1))
def soft_viterbi(emissions, transitions):
    score = emissions[0]
    for t in range(1, len(emissions)):
        candidates = score[:, None] + transitions
        top = candidates.max(axis=0)
        score = top + np.log(np.exp(candidates - top).sum(axis=0)) + emissions[t]
    top = score.max()
    return top + np.log(np.sum(np.exp(score - top)))


@program(lambda rng: (rng.normal(size=6), np.array([2, 3, 1, 4, 2, 3])))
def soft_knapsack(values, weights, capacity=7, temperature=0.5):
    best = np.zeros(capacity + 1)
    for item in range(len(values)):
        w = weights[item]
        for c in range(capacity, -1, -1):
            if c >= w:
                take = best[c - w] + values[item]
                best[c] = temperature * np.logaddexp(best[c] / temperature, take / temperature)
    return best[capacity]


@program(lambda rng: (rng.normal(size=(4, 2)), 0.8), wrt=(0, 1))
def soft_value_iteration(reward, discount):
    """States on a ring, two actions: stay or step."""
    V = np.zeros(4)
    for _ in range(10):
        stay = reward[:, 0] + discount * V
        step = reward[:, 1] + discount * np.roll(V, -1)
        V = np.logaddexp(stay, step)
    return V


@program(lambda rng: (np.array([0.2, 0.1, 0.4]), 0.03), wrt=(0, 1))
def tranche_loss(default_probability, correlation_shift):
    """Distribution of the number of defaults by in-place recursion."""
    dist = np.zeros(4)
    dist[0] = 1.0
    for p in default_probability:
        p = p + correlation_shift
        for k in range(3, 0, -1):
            dist[k] = dist[k] * (1 - p) + dist[k - 1] * p
        dist[0] *= 1 - p
    return np.sum(np.array([0.0, 0.0, 0.5, 1.0]) * dist)


@program(lambda rng: (np.array([0.01, 0.015, 0.02, 0.022]),))
def bootstrap_discount_factors(par_rates):
    factors = []
    annuity = 0.0
    for rate in par_rates:
        factor = (1 - rate * annuity) / (1 + rate)
        annuity += factor
        factors.append(factor)
    return np.array(factors)


@program(lambda rng: (1.0 + 0.3 * np.cumsum(rng.normal(size=40)), np.array([0.38, -0.61])), wrt=(0, 1))
def breakout_trades(price, levels):
    """Profit of a rule that buys above the mean of the last five prices and sells below, and its downside risk."""
    holding, profits = False, []
    for t in range(5, len(price)):
        signal = price[t] - np.mean(price[t - 5 : t])
        if not holding and signal > levels[0]:
            holding = True
            entry = price[t]
        elif holding and signal < levels[1]:
            holding = False
            profits.append(price[t] - entry)
    losses = [p for p in profits if p < 0]
    risk = np.sqrt(sum(p**2 for p in losses) / len(losses)) if losses else 0.0
    return sum(profits) - 0.5 * risk
