"""Filters, controllers and buffers."""

import numpy as np

from tests.zoo.registry import program


@program(lambda rng: (rng.normal(size=12),))
def moving_average(x, width=3):
    out = np.zeros(len(x) - width + 1)
    for i in range(len(out)):
        out[i] = np.mean(x[i : i + width])
    return out


@program(lambda rng: (rng.normal(size=10), 0.3), wrt=(0, 1))
def exponential_smoothing(x, alpha):
    smooth = np.empty_like(x)
    smooth[0] = x[0]
    for i in range(1, len(x)):
        smooth[i] = alpha * x[i] + (1 - alpha) * smooth[i - 1]
    return smooth


@program(lambda rng: (np.array([0.2, 0.3, 0.1]), np.array([-0.5, 0.2]), rng.normal(size=14)), wrt=(0, 1, 2))
def biquad(b, a, x):
    y = np.zeros_like(x)
    for n in range(len(x)):
        y[n] = b[0] * x[n]
        if n >= 1:
            y[n] += b[1] * x[n - 1] - a[0] * y[n - 1]
        if n >= 2:
            y[n] += b[2] * x[n - 2] - a[1] * y[n - 2]
    return y


@program(lambda rng: (rng.normal(size=15), 0.6), wrt=(0, 1))
def echo_with_ring_buffer(signal, feedback, delay=4):
    buffer = np.zeros(delay)
    energy = 0.0
    for t in range(len(signal)):
        slot = t % delay
        out = signal[t] + feedback * buffer[slot]
        buffer[slot] = out
        energy += out**2
    return energy


@program(lambda rng: (rng.normal(size=10), rng.normal(size=4)), wrt=(0, 1))
def convolve_by_loops(x, kernel):
    out = np.zeros(len(x) + len(kernel) - 1)
    for i, xi in enumerate(x):
        for j, kj in enumerate(kernel):
            out[i + j] += xi * kj
    return out


@program(lambda rng: (rng.normal(size=12),))
def autocorrelation(x, max_lag=4):
    x = x - x.mean()
    c0 = np.dot(x, x)
    return np.array([np.dot(x[lag:], x[: len(x) - lag]) / c0 for lag in range(1, max_lag)])


@program(lambda rng: (rng.normal(size=8),))
def power_spectrum(x):
    n = len(x)
    power = []
    for k in range(n // 2 + 1):
        re, im = 0.0, 0.0
        for t in range(n):
            angle = -2 * np.pi * k * t / n
            re += x[t] * np.cos(angle)
            im += x[t] * np.sin(angle)
        power.append((re**2 + im**2) / n)
    return np.array(power)


@program(lambda rng: (np.array([0.4, 0.1, 0.3]), 5 + rng.normal(size=16)), wrt=(0, 1))
def holt_winters_error(params, y, period=4):
    alpha, beta, gamma = params
    level, trend = y[0], y[1] - y[0]
    season = [0.1, -0.2, 0.3, -0.2]
    error = 0.0
    for t in range(1, len(y)):
        s = season[t % period]
        forecast = level + trend + s
        error += (y[t] - forecast) ** 2
        new_level = alpha * (y[t] - s) + (1 - alpha) * (level + trend)
        trend = beta * (new_level - level) + (1 - beta) * trend
        season[t % period] = gamma * (y[t] - new_level) + (1 - gamma) * s
        level = new_level
    return error / (len(y) - 1)


@program(lambda rng: ({"kp": 2.0, "ki": 0.5, "kd": 0.1}, 1.0), wrt=(0, 1))
def pid_cost(gains, setpoint, dt=0.1, steps=25):
    x, v, integral = 0.0, 0.0, 0.0
    last = setpoint - x
    cost = 0.0
    for _ in range(steps):
        error = setpoint - x
        integral = np.clip(integral + error * dt, -0.3, 0.3)
        u = gains["kp"] * error + gains["ki"] * integral + gains["kd"] * (error - last) / dt
        u = np.clip(u, -1.7, 1.7)
        last = error
        v += dt * (u - 0.5 * v)
        x += dt * v
        cost += dt * (error**2 + 0.01 * u**2)
    return cost


@program(lambda rng: (0.05, rng.normal(size=20), np.array([0.5, -0.3])), wrt=(0, 1, 2))
def lms_filter(mu, x, channel):
    w = np.zeros(2)
    total = 0.0
    for t in range(1, len(x)):
        window = np.array([x[t], x[t - 1]])
        desired = channel @ window
        e = desired - w @ window
        w += mu * e * window
        total += e**2
    return total


@program(lambda rng: (rng.normal(size=(10, 2)), 0.97), wrt=(0, 1))
def complementary_filter(samples, k, dt=0.1):
    angle = 0.0
    for gyro, accel in samples:
        angle = k * (angle + gyro * dt) + (1 - k) * accel
    return angle


@program(lambda rng: (rng.normal(size=14), 0.6, 0.1), wrt=(0, 1, 2))
def envelope_follower(x, attack, release):
    env = 0.0
    out = []
    for sample in np.abs(x):
        if sample > env:
            env += attack * (sample - env)
        else:
            env += release * (sample - env)
        out.append(env)
    return np.array(out)


@program(lambda rng: (rng.normal(size=8),))
def haar_wavelet(x):
    details = []
    while len(x) > 1:
        details.append((x[::2] - x[1::2]) / np.sqrt(2))
        x = (x[::2] + x[1::2]) / np.sqrt(2)
    return np.sum(np.abs(np.concatenate(details))) + x[0] ** 2


@program(lambda rng: (rng.normal(size=9),))
def forward_backward_filter(x):
    def smooth(v, a=0.4):
        out = v.copy()
        for i in range(1, v.shape[0]):
            out[i] = a * v[i] + (1 - a) * out[i - 1]
        return out

    return smooth(smooth(x)[::-1])[::-1]


@program(lambda rng: (rng.normal(size=9), 0.4, 0.2), wrt=(0, 1, 2))
def scalar_kalman_track(z, q, r):
    estimate, p = 0.0, 1.0
    track = np.zeros_like(z)
    for k, measurement in enumerate(z):
        p = p + q
        gain = p / (p + r)
        estimate = estimate + gain * (measurement - estimate)
        p = (1 - gain) * p
        track[k] = estimate
    return np.sum((track - z) ** 2) + track[-1]


@program(lambda rng: (1.2 + 0.3 * rng.random(30), 0.94), wrt=(0, 1))
def leaky_integrate_and_fire(current, threshold, dt=0.1):
    """Sum of the potential over time; the spikes reset it, at times that stay fixed."""
    v, total, spikes = 0.0, 0.0, 0
    for i in current:
        v = v + dt * (i - 0.5 * v)
        if v > threshold:
            v = v - threshold
            spikes += 1
        total += v
    return total + spikes


@program(lambda rng: (rng.normal(size=6), rng.normal(size=5)), wrt=(0, 1))
def polynomial_detrend(y, weights):
    x = np.linspace(-1, 1, len(y))
    V = np.stack([x**0, x, x**2], axis=1)
    coef = np.linalg.solve(V.T @ V, V.T @ y)
    residual = y - V @ coef
    return residual[1:] @ weights


@program(lambda rng: (rng.normal(size=11),))
def median_of_three(x):
    y = x.copy()
    for i in range(1, len(x) - 1):
        a, b, c = x[i - 1], x[i], x[i + 1]
        y[i] = max(min(a, b), min(max(a, b), c))
    return np.sum(y**2)


@program(lambda rng: (rng.normal(size=7), 0.8), wrt=(0, 1))
def discounted_returns(rewards, gamma):
    out = np.zeros_like(rewards)
    running = 0.0
    for t in reversed(range(len(rewards))):
        running = rewards[t] + gamma * running
        out[t] = running
    return (out - out.mean()) / (out.std() + 1e-3)


@program(lambda rng: (rng.normal(size=12),))
def rolling_maximum(x, width=4):
    total = 0.0
    for end in range(width, len(x) + 1):
        total += np.max(x[end - width : end])
    return total


@program(lambda rng: (rng.normal(size=16), 0.15), wrt=(0, 1))
def spectral_low_pass(x, cutoff):
    freqs = np.fft.rfftfreq(len(x))
    gain = 1 / (1 + (freqs / cutoff) ** 4)
    return np.fft.irfft(np.fft.rfft(x) * gain, n=len(x))


@program(lambda rng: (rng.normal(size=15),))
def spectral_entropy(x):
    spectrum = np.fft.fft(x * np.hanning(len(x)))
    power = np.abs(spectrum) ** 2
    p = power / power.sum()
    return -np.sum(p * np.log(p + 1e-12))


@program(lambda rng: (rng.normal(size=(6, 5)), rng.normal(size=(3, 3))), wrt=(0, 1))
def convolution_by_fft(image, kernel):
    shape = (image.shape[0] + kernel.shape[0] - 1, image.shape[1] + kernel.shape[1] - 1)
    product = np.fft.rfft2(image, s=shape) * np.fft.rfft2(kernel, s=shape)
    return np.fft.irfft2(product, s=shape)


@program(lambda rng: (rng.normal(size=16),))
def spectral_derivative(u):
    k = 2j * np.pi * np.fft.fftfreq(u.size, d=1 / u.size)
    du = np.fft.ifft(k * np.fft.fft(u)).real
    return np.sum(u * du**2)


@program(lambda rng: (rng.normal(size=16), 0.1), wrt=(0, 1))
def heat_equation_by_fft(u, dt, steps=5):
    decay = np.exp(-dt * (2 * np.pi * np.fft.rfftfreq(u.size)) ** 2)
    for _ in range(steps):
        u = np.fft.irfft(np.fft.rfft(u) * decay, u.size) + dt * np.sin(u)
    return u


@program(lambda rng: (rng.normal(size=14), rng.normal(size=11)), wrt=(0, 1))
def time_warping(x, y):
    """Distance of two series whose time axes may be stretched, by a table of lists."""
    n, m = len(x), len(y)
    cost = [[float("inf")] * (m + 1) for _ in range(n + 1)]
    cost[0][0] = 0.0
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            best = min(cost[i - 1][j], cost[i][j - 1], cost[i - 1][j - 1])
            cost[i][j] = (x[i - 1] - y[j - 1]) ** 2 + best
    return cost[n][m]


@program(lambda rng: (np.cumsum(rng.normal(size=30)), 0.3))
def crossings(signal, level):
    """Mean distance of the times at which a signal crosses a level upwards."""
    times = []
    for k in range(1, len(signal)):
        if signal[k - 1] < level <= signal[k]:
            times.append(k - 1 + (level - signal[k - 1]) / (signal[k] - signal[k - 1]))
    if len(times) < 2:
        return signal[-1]
    return (times[-1] - times[0]) / (len(times) - 1)


@program(lambda rng: (np.cumsum(rng.normal(size=40)),))
def prominence_of_peaks(signal):
    """Peaks of a signal with their positions, and how far each stands above the valley between it and the last one."""
    peaks = []
    for k in range(1, len(signal) - 1):
        if signal[k] > signal[k - 1] and signal[k] > signal[k + 1]:
            peaks.append((k, signal[k]))
    total = 0.0
    for i in range(1, len(peaks)):
        (k0, y0), (k1, y1) = peaks[i - 1], peaks[i]
        total += (y1 - y0) ** 2 / (k1 - k0)
    return total / len(peaks)
