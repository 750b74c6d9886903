"""Circuits, waves and quantum states: real parameters, complex numbers on the way."""

import cmath

import numpy as np

from tests.zoo.registry import program


@program(lambda rng: (2.0, 0.5, 0.4, np.array([0.5, 1.0, 2.0, 4.0])), wrt=(0, 1, 2))
def rlc_response(r, inductance, capacity, frequencies):
    s = 1j * frequencies
    impedance = r + s * inductance + 1 / (s * capacity)
    transfer = 1 / (s * capacity) / impedance
    return 20 * np.log10(np.abs(transfer)), np.angle(transfer)


@program(lambda rng: (np.array([0.4, -0.2, 0.1]), np.array([-0.5, 0.2]), rng.normal(size=9)), wrt=(0, 1))
def filter_fit(b, a, wanted):
    """Squared distance of a frequency response from a wanted one."""
    z = np.exp(-1j * np.linspace(0.0, np.pi, len(wanted)))
    numerator = sum(b[k] * z**k for k in range(len(b)))
    denominator = 1 + sum(a[k] * z ** (k + 1) for k in range(len(a)))
    return np.sum(np.abs(numerator / denominator - wanted) ** 2)


@program(lambda rng: (rng.uniform(0.2, 1.0, size=4),))
def two_qubits(angles):
    """Energy of a state that rotations and an entangling gate prepare."""

    def rotation(theta, phi):
        c, s = np.cos(theta / 2), np.sin(theta / 2)
        return np.array([[c, -np.exp(1j * phi) * s], [np.exp(-1j * phi) * s, c]])

    entangle = np.eye(4, dtype=complex)[[0, 1, 3, 2]]
    z = np.diag([1.0 + 0j, -1.0])
    state = np.zeros(4, dtype=complex)
    state[0] = 1.0
    state = entangle @ (np.kron(rotation(angles[0], angles[1]), rotation(angles[2], angles[3])) @ state)
    state = np.kron(rotation(angles[3], 0.3), np.eye(2)) @ state
    return np.real(np.vdot(state, np.kron(z, z) @ state))


@program(lambda rng: (0.3 * rng.normal(size=24), 0.05), wrt=(0, 1))
def schrodinger(potential, dt, steps=6):
    """Crank-Nicolson steps of a wave packet; each system is solved by elimination along the diagonal."""
    n = len(potential)
    x = np.linspace(-4.0, 4.0, n)
    h = x[1] - x[0]
    psi = np.exp(-((x + 1.0) ** 2) + 2j * x)
    off = -0.25j * dt / h**2
    diagonal = 1 + 0.5j * dt * (1 / h**2 + potential)
    for _ in range(steps):
        right = np.conj(diagonal) * psi
        right[1:] -= off * psi[:-1]
        right[:-1] -= off * psi[1:]
        ratio = np.zeros(n, dtype=complex)
        value = np.zeros(n, dtype=complex)
        ratio[0] = off / diagonal[0]
        value[0] = right[0] / diagonal[0]
        for i in range(1, n):
            pivot = diagonal[i] - off * ratio[i - 1]
            ratio[i] = off / pivot
            value[i] = (right[i] - off * value[i - 1]) / pivot
        psi[n - 1] = value[n - 1]
        for i in range(n - 2, -1, -1):
            psi[i] = value[i] - ratio[i] * psi[i + 1]
    return np.sum(np.abs(psi) ** 2 * x) * h


@program(lambda rng: (np.array([0.3, -0.1]), np.array([0.1, 0.2])), wrt=(0, 1))
def escape(re, im, steps=12):
    """How far points go under z^2 + c, those that are far staying where they are."""
    c = re + 1j * im
    z = np.zeros_like(c)
    for _ in range(steps):
        z = np.where(np.abs(z) < 2.0, z * z + c, z)
    return np.sum(np.abs(z))


@program(lambda rng: (0.8, 0.4, 0.1), wrt=(0, 1, 2))
def newton_root(re, im, shift):
    """Newton's method for z^3 = 1 + shift, until it stands still."""
    z = complex(1.0, 0.0) * re + 1j * im
    step = z
    while abs(step) > 1e-12:
        step = (z**3 - 1 - shift) / (3 * z**2)
        z = z - step
    return z.real + 2 * z.imag


@program(lambda rng: (0.3, -0.2), wrt=(0, 1))
def residue(re, im, points=32):
    """A contour integral around a pole: the function there."""
    t = 2 * np.pi * np.arange(points) / points
    z = np.exp(1j * t)
    pole = re + 1j * im
    integral = np.mean(np.exp(z) / (z - pole) * z)
    return integral.real * integral.imag


@program(lambda rng: (1.2, 0.3), wrt=(0, 1))
def slope_by_complex_step(x, y, h=1e-30):
    """The derivative of a function of real numbers, by an imaginary step."""
    return np.imag(np.exp(x + 1j * h) * np.sin((x + 1j * h) * y) / (1 + (x + 1j * h) ** 2)) / h


@program(lambda rng: (np.array([1.0, 1.5, 2.0]), 0.3), wrt=(0, 1))
def layered_film(thickness, loss):
    """Reflection of a stack of layers, a product of 2 x 2 matrices."""
    total = np.eye(2, dtype=complex)
    for k in range(len(thickness)):
        index = 1.3 + 0.2 * k - 1j * loss
        phase = index * thickness[k]
        layer = np.array([[np.cos(phase), 1j * np.sin(phase) / index], [1j * index * np.sin(phase), np.cos(phase)]])
        total = total @ layer
    numerator = total[0, 0] + 1.5 * total[0, 1] - total[1, 0] - 1.5 * total[1, 1]
    denominator = total[0, 0] + 1.5 * total[0, 1] + total[1, 0] + 1.5 * total[1, 1]
    return abs(numerator / denominator) ** 2


@program(lambda rng: (rng.normal(size=(3, 3)), rng.normal(size=3)), wrt=(0, 1))
def node_voltages(conductance, currents):
    """Voltages of a network at one frequency, a complex linear system."""
    admittance = conductance @ conductance.T + np.diag([1.0 + 2.0j, 0.5j + 1.0, 1.5 - 1.0j])
    voltage = np.linalg.solve(admittance, currents)
    return np.abs(voltage)


@program(lambda rng: (rng.uniform(0.3, 1.0, size=5), 0.7), wrt=(0, 1))
def product_of_phases(weights, k):
    factors = weights * np.exp(1j * k * np.arange(5))
    sums = np.cumsum(factors)
    products = np.cumprod(1 + 0.3 * factors)
    rest = np.prod(factors + 0.5j) + np.mean(np.stack([sums, products]))
    return np.abs(np.concatenate([sums, products[::-1]])), rest.real, rest.imag


@program(lambda rng: (rng.normal(size=4),))
def roots_and_logarithms(x):
    z = x + 1j * x[::-1] ** 2 + 2.0
    parts = np.sqrt(z) * np.log(z) + np.tanh(0.3 * z) - np.sinh(0.2 * z) / np.cosh(0.3 * z) + np.arctan(0.2 * z)
    powers = z**3 + z**-2 + z**0.5 + z ** (0.3 + 0.2j) + np.reciprocal(z) + np.square(z)
    return np.sum(np.real(parts) + np.imag(parts)), np.sum(np.real(powers)), np.angle(z)


@program(lambda rng: (np.array([0.2, 0.4, 0.1]),))
def scattered(x):
    amplitudes = np.zeros(6, dtype=complex)
    for k in range(3):
        amplitudes[2 * k] += x[k] * np.exp(2j * x[k])
        amplitudes[k] += 1j * x[k]
        if amplitudes[k].imag > 0.2:
            amplitudes[k] = np.conj(amplitudes[k]) * 2
    np.add.at(amplitudes, [1, 1, 4], x * (1 - 2j))
    return np.abs(amplitudes[[0, 1, 2, 4]]).sum()


@program(lambda rng: (0.9, 0.2), wrt=(0, 1))
def scalar_recurrence(x, y):
    """Python's own complex numbers."""
    z = complex(x, y)
    total = 0j
    for k in range(1, 8):
        total += z**k / k
        z *= 1 - 0.1j
    return abs(total - 1.5) + total.conjugate().imag + cmath.pi * total.real


@program(lambda rng: (0.3 * rng.normal(size=20), 0.1), wrt=(0, 1))
def split_steps(potential, dt, steps=5):
    """The same equation with kinetic steps between transforms."""
    n = len(potential)
    x = np.linspace(-4.0, 4.0, n, endpoint=False)
    k = 2 * np.pi * np.fft.fftfreq(n, x[1] - x[0])
    psi = np.exp(-(x**2) + 1j * x)
    for _ in range(steps):
        psi = np.exp(-0.5j * dt * potential) * psi
        psi = np.fft.ifft(np.exp(-0.5j * dt * k**2) * np.fft.fft(psi))
        psi = np.exp(-0.5j * dt * potential) * psi
    return np.sum(np.abs(psi) ** 2 * x)


@program(lambda rng: (rng.normal(size=53), 3.0), wrt=(0, 1))
def analytic_signal(x, width):
    """Envelope and phase by a transform of a prime length."""
    gain = np.exp(-((np.arange(len(x)) - 8.0) ** 2) / width**2)
    signal = np.fft.ifft(2 * gain * np.fft.fft(x))
    return np.sum(np.abs(signal) ** 2), np.sum(signal.real[:5] * signal.imag[1:6])
