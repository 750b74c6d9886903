"""Networks and layers, with parameters in dicts, lists, tuples, dataclasses and objects."""

from collections import namedtuple
from dataclasses import dataclass

import numpy as np

from tests.zoo.registry import program


def sigmoid(x):
    return 1.0 / (1.0 + np.exp(-x))


def dense(rng, n_in, n_out):
    return {"w": rng.normal(size=(n_in, n_out)) / np.sqrt(n_in), "b": 0.1 * rng.normal(size=n_out)}


@program(
    lambda rng: (
        {"w1": rng.normal(size=(3, 4)), "b1": np.zeros(4), "w2": rng.normal(size=4), "b2": 0.1},
        rng.normal(size=(5, 3)),
        rng.normal(size=5),
    )
)
def mlp_loss(params, x, y):
    h = np.tanh(x @ params["w1"] + params["b1"])
    out = h @ params["w2"] + params["b2"]
    return np.mean((out - y) ** 2)


@program(
    lambda rng: (
        {"encoder": dense(rng, 4, 2), "decoder": dense(rng, 2, 4), "scale": {"log": np.array(0.1)}},
        rng.normal(size=(5, 4)),
    ),
    wrt=(0, 1),
)
def autoencoder_loss(params, x):
    code = np.tanh(x @ params["encoder"]["w"] + params["encoder"]["b"])
    back = code @ params["decoder"]["w"] + params["decoder"]["b"]
    return np.mean((np.exp(params["scale"]["log"]) * back - x) ** 2)


@program(lambda rng: ([dense(rng, 3, 4), dense(rng, 4, 4), dense(rng, 4, 1)], rng.normal(size=(4, 3))), wrt=(0, 1))
def layers_in_a_list(layers, x):
    *hidden, last = layers
    for layer in hidden:
        x = np.maximum(x @ layer["w"] + layer["b"], 0.01 * (x @ layer["w"] + layer["b"]))
    return (x @ last["w"] + last["b"]).sum()


Gate = namedtuple("Gate", ["W", "U", "b"])


@program(
    lambda rng: (
        (Gate(*(0.5 * rng.normal(size=s) for s in ((3, 2), (3, 3), (3,)))), rng.normal(size=3)),
        rng.normal(size=(6, 2)),
    ),
    wrt=(0, 1),
)
def recurrent_network(params, inputs):
    gate, readout = params
    h = np.zeros(3)
    total = 0.0
    for x in inputs:
        h = np.tanh(gate.W @ x + gate.U @ h + gate.b)
        total += readout @ h
    return total


@program(
    lambda rng: ({"W": 0.4 * rng.normal(size=(8, 4)), "b": 0.1 * rng.normal(size=8)}, rng.normal(size=(5, 2))),
    wrt=(0, 1),
)
def lstm(params, sequence):
    h, c = np.zeros(2), np.zeros(2)
    for t in range(sequence.shape[0]):
        z = params["W"] @ np.concatenate([sequence[t], h]) + params["b"]
        i, f, o, g = np.split(z, 4)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
    return np.sum(h * h)


@dataclass
class Affine:
    weight: np.ndarray
    bias: np.ndarray

    def __call__(self, x):
        return x @ self.weight + self.bias


@program(lambda rng: (Affine(rng.normal(size=(3, 2)), rng.normal(size=2)), rng.normal(size=(4, 3))), wrt=(0, 1))
def dataclass_layer(layer, x):
    return np.sum(np.sin(layer(x)))


class Network:
    """Layers as an object; the weights come from outside, the architecture is inside."""

    def __init__(self, sizes, activation):
        self.sizes = sizes
        self.activation = activation
        self.scale = 0.5

    def split(self, flat):
        start = 0
        for n_in, n_out in zip(self.sizes[:-1], self.sizes[1:]):
            stop = start + n_in * n_out
            yield flat[start:stop].reshape(n_in, n_out), flat[stop : stop + n_out]
            start = stop + n_out

    def forward(self, flat, x):
        for w, b in self.split(flat):
            x = self.activation(x @ w + b)
        return self.scale * x

    def __call__(self, flat, x, y):
        return np.mean((self.forward(flat, x) - y) ** 2)


program(lambda rng: (rng.normal(size=3 * 4 + 4 + 4 + 1), rng.normal(size=(5, 3)), rng.normal(size=(5, 1))))(
    Network([3, 4, 1], np.tanh)
)


class Standardizer:
    def __init__(self, mean, sd):
        self.mean, self.sd = mean, sd

    def transform(self, x):
        return (x - self.mean) / self.sd

    def log_density(self, x):
        z = self.transform(x)
        return -0.5 * np.sum(z**2) - len(x) * np.log(self.sd)


program(lambda rng: (rng.normal(size=5),))(Standardizer(0.3, 1.7).log_density)


@program(lambda rng: (rng.normal(size=(6, 3)), np.array([1.1, 0.9, 1.0]), np.array([0.1, 0.0, -0.1])), wrt=(0, 1, 2))
def batch_norm(x, gamma, beta, eps=1e-5):
    mean = x.mean(axis=0)
    var = x.var(axis=0)
    return gamma * (x - mean) / np.sqrt(var + eps) + beta


@program(lambda rng: (rng.normal(size=(2, 9)), rng.normal(size=(3, 2, 4)), rng.normal(size=3)), wrt=(0, 1, 2))
def conv1d(x, kernels, bias):
    c_out, c_in, width = kernels.shape
    length = x.shape[1] - width + 1
    out = np.zeros((c_out, length))
    for o in range(c_out):
        for t in range(length):
            out[o, t] = np.sum(kernels[o] * x[:, t : t + width]) + bias[o]
    return np.tanh(out)


@program(lambda rng: (rng.normal(size=(6, 3)), rng.normal(size=3), np.array([0, 2, 2, 5, 1])), wrt=(0, 1))
def bag_of_words_score(embedding, readout, tokens):
    sentence = embedding[tokens].mean(axis=0)
    return sigmoid(sentence @ readout)


@program(lambda rng: (rng.normal(size=(4, 4)), rng.normal(size=(4, 2)), rng.normal(size=(2, 2))), wrt=(1, 2))
def graph_convolution(adjacency, features, weight):
    A = (adjacency + adjacency.T > 0).astype(float)
    degree = A.sum(axis=1) + 1.0
    mixed = (A @ features + features) / degree[:, None]
    return np.logaddexp(mixed @ weight, 0.0).sum()


def make_polynomial(degree):
    powers = np.arange(degree + 1)

    def evaluate(coef, x):
        return np.sum(coef * x[:, None] ** powers, axis=1)

    return evaluate


cubic = make_polynomial(3)


@program(lambda rng: (rng.normal(size=4), rng.uniform(0.5, 1.5, 6)), wrt=(0, 1))
def closure_over_powers(coef, x):
    return np.sum(cubic(coef, x) ** 2)


ACTIVATIONS = {"tanh": np.tanh, "softplus": lambda x: np.log1p(np.exp(x)), "swish": lambda x: x * sigmoid(x)}


@program(lambda rng: (rng.normal(size=(3, 3)), rng.normal(size=3)), wrt=(0, 1))
def activations_by_name(w, x, names=("tanh", "softplus", "swish")):
    for name in names:
        x = ACTIVATIONS[name](w @ x)
    return x


@program(lambda rng: (rng.normal(size=(4, 3)), rng.normal(size=(5, 3))), wrt=(0, 1))
def contrastive_loss(a, b, temperature=0.5):
    a = a / np.linalg.norm(a, axis=1, keepdims=True)
    b = b / np.linalg.norm(b, axis=1, keepdims=True)
    logits = a @ b.T / temperature
    return np.mean(np.log(np.exp(logits).sum(axis=1)) - np.diagonal(logits))


@program(lambda rng: (rng.normal(size=(3, 4)), rng.normal(size=4), rng.normal(size=4)), wrt=(0, 1, 2))
def layer_norm_residual(x, gain, shift):
    for _ in range(3):
        centered = x - np.mean(x, axis=-1, keepdims=True)
        normed = centered / np.sqrt(np.mean(centered**2, axis=-1, keepdims=True) + 1e-6)
        x = x + np.tanh(gain * normed + shift)
    return x


@program(
    lambda rng: (
        (rng.normal(size=(3, 4)).astype(np.float32), rng.normal(size=4).astype(np.float32)),
        rng.normal(size=(5, 3)).astype(np.float32),
    ),
    rtol=2e-5,  # float32: 24 bits
)
def float32_network(params, x):
    w, v = params
    h = np.tanh(x @ w)
    out = sigmoid(h @ v)
    return -np.log(out + 1e-3).mean()


@program(lambda rng: ({"w": rng.normal(size=3), "frozen": [1, 2, 3]}, rng.normal(size=3)))
def momentum_training(params, target):
    w, velocity = params["w"], np.zeros(3)
    for step in range(5):
        grad = 2 * (w - target) * np.array(params["frozen"])
        velocity = 0.9 * velocity - 0.05 * grad
        w = w + velocity
    return {"w": w, "loss": np.sum((w - target) ** 2)}


@program(lambda rng: (rng.normal(size=4), rng.normal(size=4), rng.normal(size=4)), wrt=(0, 1, 2))
def adam_steps(w, target, curvature, lr=0.1, b1=0.9, b2=0.99):
    m, v = np.zeros(4), np.zeros(4)
    for t in range(1, 6):
        g = np.exp(0.1 * curvature) * (w - target)
        m = b1 * m + (1 - b1) * g
        v = b2 * v + (1 - b2) * g**2
        w = w - lr * (m / (1 - b1**t)) / (np.sqrt(v / (1 - b2**t)) + 1e-8)
    return np.sum((w - target) ** 2)
