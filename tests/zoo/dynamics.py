"""Simulation: integrators and mechanics with plain loops."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tests.zoo.registry import program


@program(lambda rng: (1.5, 0.8), wrt=(0, 1))
def euler_decay(y0, rate, steps=50, dt=0.02):
    y = y0
    for _ in range(steps):
        y = y - dt * rate * y
    return y


def pendulum_rhs(state, length):
    theta, omega = state
    return np.array([omega, -9.81 / length * np.sin(theta)])


@program(lambda rng: (np.array([0.9, 0.1]), 1.2), wrt=(0, 1))
def pendulum_rk4(state, length, dt=0.05, steps=20):
    for _ in range(steps):
        k1 = pendulum_rhs(state, length)
        k2 = pendulum_rhs(state + dt / 2 * k1, length)
        k3 = pendulum_rhs(state + dt / 2 * k2, length)
        k4 = pendulum_rhs(state + dt * k3, length)
        state = state + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return state[0] ** 2 + state[1]


class Phase(NamedTuple):
    q: np.ndarray
    p: np.ndarray


@program(lambda rng: (Phase(np.array([1.0, -0.5]), np.array([0.2, 0.4])), np.array([1.0, 2.5])), wrt=(0, 1))
def leapfrog(state, stiffness, dt=0.1, steps=15):
    q, p = state
    for _ in range(steps):
        p = p - 0.5 * dt * stiffness * q
        q = q + dt * p
        p = p - 0.5 * dt * stiffness * q
    return Phase(q, p)


@program(lambda rng: (np.array([1.0, 0.0]), 1.3), wrt=(0, 1), rtol=1e-6)
def adaptive_heun(y, k, t_end=2.0, tol=1e-3):
    """Heun with an embedded Euler step: the step length follows the error, until t_end is met."""

    def f(y):
        return np.array([y[1], -k * y[0] - 0.1 * y[1] ** 3])

    t, h = 0.0, 0.1
    while t < t_end:
        if t + h > t_end:
            h = t_end - t
        k1 = f(y)
        k2 = f(y + h * k1)
        error = np.linalg.norm(0.5 * h * (k2 - k1))
        if error <= tol:
            t = t + h
            y = y + 0.5 * h * (k1 + k2)
        h = 0.9 * h * min(2.0, max(0.3, math.sqrt(tol / error)))
    return y


@program(lambda rng: (np.array([1.2, -0.3]), 0.8), wrt=(0, 1))
def van_der_pol(x0, mu, dt=0.02, steps=60):
    x, v = x0[0], x0[1]
    for _ in range(steps):
        a = mu * (1 - x * x) * v - x
        x, v = x + dt * v, v + dt * a
    return x * x + 0.5 * v * v


@program(
    lambda rng: (rng.normal(size=(4, 2)), 0.3 * rng.normal(size=(4, 2)), np.array([1.0, 0.5, 2.0, 0.8])), wrt=(0, 1, 2)
)
def n_body(pos, vel, mass, dt=0.01, steps=8):
    n = len(mass)
    pos, vel = pos.copy(), vel.copy()
    for _ in range(steps):
        force = np.zeros_like(pos)
        for i in range(n):
            for j in range(i + 1, n):
                d = pos[j] - pos[i]
                r2 = d @ d + 0.05
                f = mass[i] * mass[j] * d / (r2 * np.sqrt(r2))
                force[i] += f
                force[j] -= f
        vel += dt * force / mass[:, None]
        pos += dt * vel
    return pos


def lorenz_rhs(s, p):
    x, y, z = s
    sigma, rho, beta = p
    return np.array([sigma * (y - x), x * (rho - z) - y, x * y - beta * z])


@program(lambda rng: (np.array([1.0, 1.0, 1.0]), np.array([10.0, 28.0, 8 / 3])), wrt=(0, 1))
def lorenz_rk4(s, p, dt=0.005, steps=40):
    for i in range(steps):
        k1 = lorenz_rhs(s, p)
        k2 = lorenz_rhs(s + 0.5 * dt * k1, p)
        k3 = lorenz_rhs(s + 0.5 * dt * k2, p)
        k4 = lorenz_rhs(s + dt * k3, p)
        s = s + dt * (k1 + 2.0 * k2 + 2.0 * k3 + k4) / 6.0
    return s


@program(lambda rng: ({"alpha": 1.1, "beta": 0.4, "delta": 0.1, "gamma": 0.4}, np.array([4.0, 2.0])), wrt=(0, 1))
def lotka_volterra(rates, start, dt=0.05, steps=30):
    path = np.empty((steps + 1, 2))
    path[0] = start
    for k in range(steps):
        prey, predator = path[k]
        path[k + 1, 0] = prey + dt * (rates["alpha"] * prey - rates["beta"] * prey * predator)
        path[k + 1, 1] = predator + dt * (rates["delta"] * prey * predator - rates["gamma"] * predator)
    return path.mean(axis=0)


@program(lambda rng: (20.0, 0.8, 2.0), wrt=(0, 1, 2))
def projectile_range(speed, angle, drag_percent, dt=0.05):
    drag = drag_percent / 100
    x, y = 0.0, 0.0
    vx = speed * math.cos(angle)
    vy = speed * math.sin(angle)
    while True:
        v = math.sqrt(vx * vx + vy * vy)
        vx_new = vx - dt * drag * v * vx
        vy_new = vy - dt * (9.81 + drag * v * vy)
        x_new = x + dt * vx
        y_new = y + dt * vy
        if y_new < 0:
            break
        x, y, vx, vy = x_new, y_new, vx_new, vy_new
    fraction = y / (y - y_new)
    return x + fraction * (x_new - x)


@program(lambda rng: (0.5, 0.2, np.array([0.01, 0.05, 0.1, 0.12])), wrt=(0, 1))
def epidemic_misfit(beta, gamma, observed):
    s, i, r = 0.99, 0.01, 0.0
    infected = []
    for day in range(12):
        new = beta * s * i
        recovered = gamma * i
        s -= new
        i += new - recovered
        r += recovered
        if day % 3 == 0:
            infected.append(i)
    return np.sum((np.array(infected) - observed) ** 2)


@program(lambda rng: (np.sin(np.linspace(0, np.pi, 9)), 0.4), wrt=(0, 1))
def crank_nicolson(u, diffusivity, steps=4):
    """Implicit heat equation; each step is a tridiagonal solve by the Thomas algorithm."""
    n = len(u)
    r = diffusivity / 2
    for _ in range(steps):
        d = np.zeros(n)
        d[1:-1] = r * u[:-2] + (1 - 2 * r) * u[1:-1] + r * u[2:]
        c = np.zeros(n)
        for i in range(1, n - 1):
            m = (1 + 2 * r) + r * c[i - 1]
            c[i] = -r / m
            d[i] = (d[i] + r * d[i - 1]) / m
        new = np.zeros(n)
        for i in range(n - 2, 0, -1):
            new[i] = d[i] - c[i] * new[i + 1]
        u = new
    return u


@program(lambda rng: (np.array([1.0, 1.8, -18.0, -3.0]), np.array([0.1, 0.0, 0.12, 0.0])), wrt=(0, 1))
def cart_pole_cost(gains, state, dt=0.02, steps=25):
    g, m, M, l = 9.81, 0.1, 1.0, 0.5
    x, xd, th, thd = state
    cost = 0.0
    for _ in range(steps):
        u = -(gains[0] * x + gains[1] * xd + gains[2] * th + gains[3] * thd)
        s, c = math.sin(th), math.cos(th)
        temp = (u + m * l * thd**2 * s) / (M + m)
        thdd = (g * s - c * temp) / (l * (4 / 3 - m * c**2 / (M + m)))
        xdd = temp - m * l * thdd * c / (M + m)
        x += dt * xd
        xd += dt * xdd
        th += dt * thd
        thd += dt * thdd
        cost += dt * (x**2 + 10 * th**2 + 0.01 * u**2)
    return cost


@program(lambda rng: (np.array([1.2, -0.7, 0.1, 0.3]), 1.0, 0.7), wrt=(0, 1, 2))
def double_pendulum_energy(state, m2, l2, dt=0.01, steps=10):
    g = 9.81
    q, w = state[:2], state[2:]
    for _ in range(steps):
        delta = q[0] - q[1]
        mass = np.array([[1.0 + m2, m2 * l2 * np.cos(delta)], [np.cos(delta), l2]])
        rhs = np.array(
            [
                -m2 * l2 * w[1] ** 2 * np.sin(delta) - (1.0 + m2) * g * np.sin(q[0]),
                w[0] ** 2 * np.sin(delta) - g * np.sin(q[1]),
            ]
        )
        w = w + dt * np.linalg.solve(mass, rhs)
        q = q + dt * w
    return q @ q + w @ w


def rot_z(a):
    c, s = np.cos(a), np.sin(a)
    return np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])


@program(lambda rng: (np.array([0.3, -0.5, 0.9]), np.array([1.0, 0.8, 0.4]), np.array([1.1, 0.9, 0.0])), wrt=(0, 1))
def arm_reaching_error(angles, lengths, target):
    R = np.eye(3)
    tip = np.zeros(3)
    for angle, length in zip(angles, lengths):
        R = R @ rot_z(angle)
        tip = tip + R @ np.array([length, 0.0, 0.0])
    return np.sum((tip - target) ** 2)


@program(lambda rng: (1.0, 40.0), wrt=(0, 1))
def implicit_euler(y, stiffness, dt=0.05, steps=6):
    """A stiff cubic decay; Newton's method solves each step."""
    for _ in range(steps):
        z = y
        while True:
            residual = z - y + dt * stiffness * (z + z**3)
            step = residual / (1 + dt * stiffness * (1 + 3 * z**2))
            z = z - step
            if abs(step) < 1e-13:
                break
        y = z
    return y


@program(lambda rng: (2.0, 0.8), wrt=(0, 1))
def bouncing_ball(height, restitution, dt=0.01, steps=150):
    y, v = height, 0.0
    for _ in range(steps):
        v -= 9.81 * dt
        y += v * dt
        if y < 0:
            y = -restitution * y
            v = -restitution * v
    return y + 0.1 * v


@dataclass
class Chain:
    stiffness: np.ndarray
    damping: float


@program(lambda rng: (Chain(np.array([2.0, 3.0, 1.5, 2.5]), 0.3), rng.normal(size=3)), wrt=(0, 1))
def spring_chain(chain, x, dt=0.05, steps=12):
    v = np.zeros_like(x)
    for _ in range(steps):
        stretch = np.diff(np.concatenate(([0.0], x, [0.0])))
        tension = chain.stiffness * stretch
        v = v + dt * (tension[1:] - tension[:-1] - chain.damping * v)
        x = x + dt * v
    return np.sum(x**2) + np.sum(v**2)


@program(lambda rng: (np.array([1.0, 0.1, -0.2, 0.3]), np.array([0.5, -0.4, 0.8])), wrt=(0, 1))
def attitude_integration(q, rate, dt=0.05, steps=10):
    wx, wy, wz = rate
    omega = np.array([[0.0, -wx, -wy, -wz], [wx, 0.0, wz, -wy], [wy, -wz, 0.0, wx], [wz, wy, -wx, 0.0]])
    for _ in range(steps):
        q = q + 0.5 * dt * omega @ q
        q = q / np.linalg.norm(q)
    return q


@program(lambda rng: (rng.uniform(0, 6, 5), rng.normal(size=5), 0.9), wrt=(0, 1, 2))
def kuramoto_order(theta, omega, coupling, dt=0.05, steps=10):
    n = theta.size
    for _ in range(steps):
        pull = np.sin(theta[None, :] - theta[:, None]).sum(axis=1)
        theta = theta + dt * (omega + coupling / n * pull)
    return np.hypot(np.cos(theta).mean(), np.sin(theta).mean())


@program(lambda rng: (1.5 + 0.3 * np.sin(np.linspace(0, 6, 12)),))
def burgers_upwind(u, dt=0.02, dx=0.1, steps=6):
    u = u.copy()
    for _ in range(steps):
        flux = 0.5 * u**2
        u[1:] -= dt / dx * (flux[1:] - flux[:-1])
    return 0.5 * dx * np.sum(u**2)


@program(lambda rng: (np.array([-60.0, 0.05, 0.6, 0.3]), 8.0), wrt=(0, 1))
def hodgkin_huxley(state, current, dt=0.02, steps=15):
    v, m, h, n = state
    for _ in range(steps):
        am = 0.1 * (v + 40) / (1 - np.exp(-(v + 40) / 10))
        bm = 4 * np.exp(-(v + 65) / 18)
        ah = 0.07 * np.exp(-(v + 65) / 20)
        bh = 1 / (1 + np.exp(-(v + 35) / 10))
        an = 0.01 * (v + 55) / (1 - np.exp(-(v + 55) / 10))
        bn = 0.125 * np.exp(-(v + 65) / 80)
        ionic = 120 * m**3 * h * (v - 50) + 36 * n**4 * (v + 77) + 0.3 * (v + 54.4)
        v += dt * (current - ionic)
        m += dt * (am * (1 - m) - bm * m)
        h += dt * (ah * (1 - h) - bh * h)
        n += dt * (an * (1 - n) - bn * n)
    return v


@program(lambda rng: (np.array([0.0, 0.1]), 0.7, rng.normal(size=20)), wrt=(0, 1))
def langevin_path(x0, sigma, noise, dt=0.05):
    x, history = x0[0], [x0[0]]
    for k in range(len(noise)):
        x = x - dt * (x**3 - x - x0[1]) + sigma * math.sqrt(dt) * noise[k]
        history.append(x)
    return np.mean(np.stack(history) ** 2)


@program(lambda rng: (rng.uniform(0.2, 0.8, (6, 6)), rng.uniform(0.1, 0.3, (6, 6)), 0.04), wrt=(0, 1, 2))
def gray_scott(u, v, feed, steps=3):
    def laplacian(a):
        return np.roll(a, 1, 0) + np.roll(a, -1, 0) + np.roll(a, 1, 1) + np.roll(a, -1, 1) - 4 * a

    for _ in range(steps):
        uvv = u * v * v
        u = u + 0.16 * laplacian(u) - uvv + feed * (1 - u)
        v = v + 0.08 * laplacian(v) + uvv - (feed + 0.06) * v
    return v


@program(
    lambda rng: (np.array([[1.0, 0.1], [-0.05, 0.98]]), np.array([[0.0], [0.1]]), np.array([1.0, -0.5])), wrt=(0, 1)
)
def regulator(a, b, start, steps=12):
    """Cost of a linear-quadratic regulator: gains by the backward recursion, then a run with them."""
    value = [None] * (steps + 1)
    gain = [None] * steps
    value[steps] = np.eye(2)
    for k in range(steps - 1, -1, -1):
        after = value[k + 1]
        gain[k] = np.linalg.solve(np.eye(1) + b.T @ after @ b, b.T @ after @ a)
        value[k] = np.eye(2) + a.T @ after @ (a - b @ gain[k])
    state, cost = start, 0.0
    for k in range(steps):
        force = -gain[k] @ state
        cost = cost + state @ state + force @ force
        state = a @ state + b @ force
    return cost


@program(lambda rng: (np.array([0.3, 1.1]), 0.9), wrt=(0, 1))
def energy_of_recorded_states(state, mass, dt=0.02, steps=200):
    history = []
    q, p = state
    for step in range(steps):
        p = p - dt * np.sin(q)
        q = q + dt * p / mass
        history.append({"t": step * dt, "q": q, "p": p})
    drift = 0.0
    for entry in history:
        energy = entry["p"] ** 2 / (2 * mass) - np.cos(entry["q"])
        drift += entry["t"] * energy**2
    return drift / len(history) + history[-1]["q"]
