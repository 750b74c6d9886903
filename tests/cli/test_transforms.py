"""`--transform` of dump and check: code that runs and is right, identities that are reported."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import tracegrad as tg
from tracegrad import cli
from tracegrad.testing import identities

X = np.array([0.3, 0.7, 1.1])


def energy(x, a):
    total = 0.0
    for k in range(3):
        if x[k] > 0.5:
            total = total + a * np.sin(x[k]) * x[0]
        else:
            total = total + x[k] ** 3
    return total


@pytest.fixture
def target(tmp_path: Path) -> str:
    module = tmp_path / "model.py"
    lines = Path(__file__).read_text()
    source = lines[lines.index("def energy") : lines.index("@pytest.fixture")]
    module.write_text(f"import numpy as np\n\n\n{source}")
    return f"{module}:energy"


def run(*words: str) -> str:
    done = CliRunner().invoke(cli.main, words)
    assert done.exit_code == 0, done.output
    return done.stdout


T = np.array([1.0, -1.0, 0.5])
EXPECTED = {
    "grad": lambda: ((X, 2.0), tg.grad(energy)(X, 2.0)),
    "value_and_grad": lambda: ((X, 2.0), tg.value_and_grad(energy)(X, 2.0)),
    "jvp": lambda: ((X, 2.0, T), tg.jvp(energy, (X, 2.0), (T, 0.0))),
    "vjp": lambda: ((X, 2.0, 3.0), tuple(3 * g for g in tg.grad(energy, argnums=(0, 1))(X, 2.0))),
    "jacobian": lambda: ((X, 2.0), tg.jacobian(energy)(X, 2.0)),
    "hessian": lambda: ((X, 2.0), tg.hessian(energy)(X, 2.0)),
    "hvp": lambda: ((X, 2.0, T), tg.hessian(energy)(X, 2.0) @ T),
}


@pytest.mark.parametrize("kind", EXPECTED)
def test_dump(target: str, kind: str) -> None:
    text = run("dump", target, "--arg", "x=f64[3]", "--arg", "a=2.0", "--transform", kind)
    scope: dict[str, object] = {}
    exec(text, scope)
    arguments, expected = EXPECTED[kind]()
    found = scope[f"energy_{kind}"](*arguments)
    for a, b in (
        zip(np.atleast_1d(found), np.atleast_1d(expected), strict=True) if kind == "grad" else [(found, expected)]
    ):
        flat_a, flat_b = (np.concatenate([np.ravel(p) for p in (v if isinstance(v, tuple) else (v,))]) for v in (a, b))
        np.testing.assert_allclose(flat_a, flat_b, rtol=1e-13)


def test_dump_vmap(target: str) -> None:
    for emit in ("python", "c"):
        text = run("dump", target, "--arg", "x=f64[b,3]", "--arg", "a=2.0", "--transform", "vmap", "--emit", emit)
        assert "energy_vmap" in text
        if emit == "python":
            scope: dict[str, object] = {}
            exec(text, scope)
            rows = np.stack([X, 2 * X])
            np.testing.assert_allclose(scope["energy_vmap"](rows, 2.0), [energy(row, 2.0) for row in rows])


OWN_LINES = {
    "grad": [],
    "value_and_grad": ["value_and_grad, and value and grad alone"],
    "jvp": ["jvp and differences of the function"],
    "vjp": ["vjp by all arguments and differences of the function"],
    "jacobian": ["Jacobian times a tangent and jvp", "jacfwd and jacrev"],
    "hessian": ["Hessian and its transpose", "Hessian times a vector and hvp"],
    "hvp": ["hvp and differences of the gradient", "hvp and its transpose"],
    "vmap": ["vmap and a loop over the elements"],
}


@pytest.mark.parametrize("kind", cli.TRANSFORMS)
def test_check(target: str, kind: str) -> None:
    shape = "f64[b,3]" if kind == "vmap" else "f64[3]"
    text = run("check", target, "--arg", f"x={shape}", "--arg", "a=2.0", "--transform", kind, "--range", "0.6,1")
    assert text.rstrip().endswith("agreed")
    for backend in ("numpy", "c"):
        digits = dict(re.findall(rf"(.*), backend {backend}: ([\d.]+) digits", text))
        common = {f"{what}{of}" for what, _ in identities.COMMON for of in ("", " of the gradient")}
        assert [what for what in digits if what not in common] == OWN_LINES[kind]
        least = {what: 8 if "differences" in what else 12 for what in digits}
        assert all(float(found) > least[what] for what, found in digits.items()), digits


@pytest.mark.parametrize("kind", [kind for kind in cli.TRANSFORMS if OWN_LINES[kind]])
def test_check_finds_a_transform_that_is_wrong(kind: str, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def spoiled(original):
        def made(*args, **options):
            found = original(*args, **options)
            if kind in ("jvp", "hvp"):
                return tuple(spoil(part) for part in found)
            if kind == "vjp":
                return found[0], lambda ct: tuple(spoil(part) for part in found[1](ct))
            return lambda *values: spoil(found(*values))

        return made

    def spoil(value):
        if isinstance(value, tuple):
            return tuple(spoil(part) for part in value)
        factors = np.ones(np.shape(value))
        factors.flat[1 if np.size(value) > 1 else 0] = 3.0
        return value * factors

    monkeypatch.setattr(identities, kind, spoiled(getattr(tg, kind)))
    shape = "f64[3,3]" if kind == "vmap" else "f64[3]"
    words = ["check", target, "--arg", f"x={shape}", "--arg", "a=2.0", "--transform", kind, "--range", "0.6,1"]
    done = CliRunner().invoke(cli.main, [*words, "--backend", "numpy"])
    assert done.exit_code == 1, done.output
    digits = dict(re.findall(r"(.*), backend numpy: ([\d.]+) digits", done.output))
    assert min(float(digits[what]) for what in OWN_LINES[kind]) < 1.5


def test_check_of_arguments_of_many_kinds(tmp_path: Path) -> None:
    module = tmp_path / "kinds.py"
    module.write_text(
        "import numpy as np\n\ndef f(params, x, n, *, scale):\n"
        "    z = np.tanh(x @ params['w'] + params['b']) ** n\n    return {'out': z * scale, 'n': n}\n"
    )
    given = ["params={w: f64[3], b: f64[]}", "x=f32[4,3]", "n=2", "scale=f64[]"]
    words = ["check", f"{module}:f", *(w for g in given for w in ("--arg", g)), "--wrt", "params,x"]
    for kind in ("jvp", "vjp", "jacobian"):
        done = CliRunner().invoke(cli.main, [*words, "--transform", kind])
        assert done.exit_code == 0, done.output
        assert OWN_LINES[kind][0] in done.output


def test_complex_step_of_an_analytic_function(tmp_path: Path) -> None:
    module = tmp_path / "smooth.py"
    module.write_text("import numpy as np\n\ndef f(x):\n    return np.sum(np.exp(np.sin(x)))\n")
    text = run("check", f"{module}:f", "--arg", "x=f64[4]")
    assert float(re.findall(r"complex step, backend c: ([\d.]+) digits", text)[0]) > 13


def test_a_complex_step_is_not_compared_with_itself(tmp_path: Path) -> None:
    module = tmp_path / "called.py"
    lines = ("import numpy as np", "import tracegrad as tg", "def f(x):")
    call = "    return np.sum(tg.pure_callback(np.sin, x, x, rule='complex-step'))"
    module.write_text("\n".join([*lines, call, ""]))
    text = run("check", f"{module}:f", "--arg", "x=f64[4]", "--backend", "numpy")
    assert "forward and reverse mode" in text
    assert "complex step" not in text
    wrong = tmp_path / "wrong.py"
    wrong.write_text(module.read_text().replace("np.sin", "np.abs"))
    done = CliRunner().invoke(cli.main, ["check", f"{wrong}:f", "--arg", "x=f64[4]"])
    assert done.exit_code == 2
    assert "the complex step of absolute is not its derivative" in done.stderr


WRONG_RULES = """import numpy as np
import tracegrad as tg


@tg.custom_vjp
def doubled(y):
    return 2 * y


doubled.defvjp(lambda y: (2 * y, None), lambda _, ct: (ct,))


@tg.custom_jvp
def softplus(z, k=2):
    return np.log1p(np.exp(k * z)) / k


@softplus.defjvp
def _(primals, tangents):
    return softplus(*primals), tangents[0] / (1 + np.exp(-primals[0] * primals[1]))


def f(x):
    return np.sum(softplus(x) * doubled(x + 1.0))
"""


@pytest.mark.parametrize("kind", ["grad", "hessian", "hvp", "jacobian"])
def test_a_wrong_rule_is_named_with_its_input(tmp_path: Path, kind: str) -> None:
    module = tmp_path / "model.py"
    module.write_text(WRONG_RULES)
    done = CliRunner().invoke(cli.main, ["check", f"{module}:f", "--arg", "x=f64[2]", "--transform", kind])
    assert done.exit_code == 1, done.stderr
    assert "backend c: the slope along a random direction of x is" in done.stdout
    assert "the rule of doubled is wrong: the slope along a random direction of y is" in done.stdout
    assert "  y = array([1." in done.stdout
    assert "the rule of softplus" not in done.stdout


HALF_WRONG = """import numpy as np
import tracegrad as tg


@tg.custom_vjp
def square(x):
    return x**2


square.defvjp(lambda x: (x**2, x), lambda x, ct: ((2 if x > LIMIT else 3) * x * ct,))


def f(x):
    return square(x) + x
"""


@pytest.mark.parametrize("limit", ["0", "-1.5", "-8", "12"])
def test_a_rule_that_is_wrong_beyond_a_point_is_found(limit: str, tmp_path: Path) -> None:
    module = tmp_path / "half.py"
    source = HALF_WRONG.replace("LIMIT", limit)
    module.write_text(source if limit != "12" else source.replace("2 if", "3 if").replace("else 3", "else 2"))
    done = CliRunner().invoke(cli.main, ["check", f"{module}:f", "--arg", "x=f64[]", "--seed", "4"])
    assert "the rule of square is wrong" in done.output
    assert done.exit_code == 1


def test_the_first_argument_that_holds_floats_is_the_one_to_differentiate_by(tmp_path: Path) -> None:
    module = tmp_path / "m.py"
    module.write_text("def f(word, n, w):\n    return n * sum(w[ord(letter) % 4] for letter in word)\n")
    text = run("dump", f"{module}:f", "--arg", "word='kitten'", "--arg", "n=3", "--arg", "w=f64[4]")
    scope: dict[str, object] = {}
    exec(text, scope)
    np.testing.assert_array_equal(scope["f_value_and_grad"]("kitten", 3, np.ones(4))[1], [6.0, 6.0, 3.0, 3.0])


def test_array_without_dimensions_that_is_added_to(tmp_path: Path) -> None:
    module = tmp_path / "m.py"
    module.write_text("def f(c, y):\n    p = c\n    p += 0.5 * y[0]\n    return p**2 + p * c\n")
    words = ["check", f"{module}:f", "--arg", "c=f64[]", "--arg", "y=f64[2]", "--backend", "numpy"]
    done = CliRunner().invoke(cli.main, words)
    assert done.exit_code == 0 and done.output.endswith("agreed\n"), done.output


def test_dump_vmap_batches_every_argument(tmp_path: Path) -> None:
    module = tmp_path / "model.py"
    module.write_text("def f(x, y, n=2):\n    return x @ y * n\n")
    words = ("dump", f"{module}:f", "--arg", "x=f64[b,3]", "--arg", "y=f64[b,3]", "--transform", "vmap")
    scope: dict[str, object] = {}
    exec(run(*words), scope)
    x, y = np.arange(12.0).reshape(2, 2, 3)
    np.testing.assert_allclose(scope["f_vmap"](x, y, 2), [2 * x[0] @ y[0], 2 * x[1] @ y[1]])
    exec(run(*words[:4], "--arg", "y=f64[3]", "--transform", "vmap", "--wrt", "x"), scope)
    np.testing.assert_allclose(scope["f_vmap"](x, y[0], 2), 2 * x @ y[0])


@pytest.mark.parametrize("command", ["dump", "check"])
def test_vmap_of_a_function_that_needs_more_axes_says_what_it_gets(tmp_path: Path, command: str) -> None:
    module = tmp_path / "model.py"
    module.write_text("def f(p):\n    s = 0.0\n    for v in p:\n        s += v * v\n    return s\n")
    words = [command, f"{module}:f", "--arg", "p=f64[3]", "--transform", "vmap"]
    done = CliRunner().invoke(cli.main, words)
    assert done.exit_code == 2
    assert "without tracegrad too [TG809]" in done.stderr
    assert "of p the function gets one element along axis 0" in done.stderr


def test_check_of_vmap_says_which_axis_the_function_does_not_get(tmp_path: Path) -> None:
    module = tmp_path / "model.py"
    module.write_text("import numpy as np\n\ndef f(x, k):\n    return np.sum(x * k) / len(x)\n")
    words = ["check", f"{module}:f", "--arg", "x=f64[4]", "--arg", "k=0.3", "--transform", "vmap"]
    done = CliRunner().invoke(cli.main, words)
    assert done.exit_code == 2
    assert "len(x: f64[]); vmap calls f with one element at a time, without axis 0 of x" in done.stderr
    assert "which NumPy refuses too" in done.stderr


@pytest.mark.parametrize("body", ["x[0, 1]", "np.sum(x @ np.ones((2, 3)))", "x + np.ones(3)", "x[np.ones((2, 2)) > 0]"])
def test_vmap_says_of_any_misfit_which_axis_is_missing(tmp_path: Path, body: str) -> None:
    module = tmp_path / "model.py"
    module.write_text(f"import numpy as np\n\ndef f(x):\n    return {body}\n")
    words = ["check", f"{module}:f", "--arg", "x=f64[3,2]" if "@" not in body else "x=f64[2,3]"]
    done = CliRunner().invoke(cli.main, [*words, "--transform", "vmap"])
    assert done.exit_code == 2
    assert "vmap calls f with one element at a time, without axis 0 of x" in done.stderr


@pytest.mark.parametrize("rest", ["{'n': 1, 'y': x * 2}", "(True, x * 2, None, 'text')", "(np.argmax(x), [2, x > 0])"])
def test_check_of_vmap_with_constant_results(tmp_path: Path, rest: str) -> None:
    module = tmp_path / "model.py"
    module.write_text(f"import numpy as np\n\ndef f(x):\n    return {rest}\n")
    done = CliRunner().invoke(cli.main, ["check", f"{module}:f", "--arg", "x=f64[3,2]", "--transform", "vmap"])
    assert done.exit_code == 0, done.output
    for backend in ("numpy", "c"):
        assert f"vmap and a loop over the elements, backend {backend}: 16.0 digits" in done.output


@pytest.mark.parametrize(
    ("kind", "words", "header"),
    [
        ("vmap", (), "value for each element along axis 0 of x of "),
        ("vmap", ("--arg", "a=f64[3]"), "value for each element along axis 0 of x, a of "),
        ("vmap", ("--arg", "a=f64[3]", "--wrt", "a"), "value for each element along axis 0 of a of "),
        ("vjp", (), "product of a cotangent with the Jacobian by x, a of "),
        ("vjp", ("--arg", "a=2"), "product of a cotangent with the Jacobian by x of "),
        ("jvp", ("--wrt", "a"), "value and directional derivative by a of "),
        ("jacobian", ("--wrt", "x,a"), "Jacobian by x, a of "),
    ],
)
def test_the_header_says_by_which_arguments(kind: str, words: tuple[str, ...], header: str, target: str) -> None:
    shape = "f64[3,3]" if kind == "vmap" and "--wrt" not in words else "f64[3]"
    given = ["--arg", f"x={shape}", *(() if "--arg" in words else ("--arg", "a=2.0")), *words]
    found = CliRunner().invoke(cli.main, ["dump", target, *given, "--transform", kind], standalone_mode=False)
    assert found.output.splitlines()[0] == f"# {header}{target}"


@pytest.mark.parametrize(
    ("kind", "row"),
    [
        ("jvp", "tangents of params, one for each array of it, passed last: t_w: f64[3], t_b: f64[]"),
        ("hvp", "tangents of params, one for each array of it, passed last: t_w: f64[3], t_b: f64[]"),
        ("vjp", "cotangents of the result, passed last: ct: f64[]"),
    ],
)
def test_the_header_says_what_directions_are_passed(kind: str, row: str, tmp_path: Path) -> None:
    model = tmp_path / "model.py"
    model.write_text(
        "import numpy as np\n\nSCALE = 2.0\n\n\n"
        "def loss(params, x):\n    return SCALE * np.sum(x @ params['w'] + params['b'])\n"
    )
    words = [f"{model}:loss", "--arg", "params={w: f64[3], b: f64[]}", "--arg", "x=f64[8,3]", "--transform", kind]
    for emit in ("python", "c"):
        text = run("dump", *words, "--emit", emit)
        lines = [line.lstrip("#* ") for line in text.splitlines()]
        place = lines.index("read from outside the function, passed before the last: SCALE: float")
        assert lines[place + 1] == row


def test_the_complex_step_is_taken_at_every_point(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    module = tmp_path / "stepped.py"
    module.write_text("import numpy as np\n\n\ndef f(x):\n    return np.sum(np.sin(x))\n")
    points = []

    def step(trial):
        points.append(trial.arguments[0].tolist())
        return 16.0 - len(points)

    monkeypatch.setattr(cli, "COMMON", (("a complex step", step),))
    words = ["check", f"{module}:f", "--arg", "x=f64[2]", "--points", "3", "--backend", "numpy"]
    found = CliRunner().invoke(cli.main, words, standalone_mode=False)
    assert len(points) == len({tuple(p) for p in points}) == 3
    assert "a complex step, backend numpy: 13.0 digits" in found.output


@pytest.mark.parametrize("name", ["rows", "gradients"])
def test_targets_that_are_batched(tmp_path: Path, name: str) -> None:
    (tmp_path / "batched.py").write_text(
        "import numpy as np\nimport tracegrad as tg\n\n"
        "def f(x):\n    return np.sum(np.sin(x) * x)\n\n"
        "rows = tg.vmap(f)\ngradients = tg.vmap(tg.grad(f))\n"
    )
    words = [f"{tmp_path}/batched.py:{name}", "--arg", "x=f64[2,3]"]
    done = CliRunner().invoke(cli.main, ["check", *words])
    assert done.exit_code == 0 and done.output.endswith("agreed\n"), done.output
    assert "straight-line code" in CliRunner().invoke(cli.main, ["explain", *words]).output


@pytest.fixture
def extra(tmp_path: Path) -> str:
    (tmp_path / "extra.py").write_text(
        "import numpy as np\n\n"
        "def with_aux(x, a=2.0):\n    return np.sum(x**3) * a, {'twice': 2 * x, 'n': 3}\n\n"
        "def writes(x, out):\n    out[:] = x**2\n    return np.sum(out * x)\n"
    )
    return str(tmp_path / "extra.py")


@pytest.mark.parametrize("kind", ["grad", "value_and_grad", "jvp", "vjp", "jacobian", "hessian", "hvp"])
def test_dump_with_aux(extra: str, kind: str) -> None:
    done = CliRunner().invoke(
        cli.main, ["dump", f"{extra}:with_aux", "--arg", "x=f64[3]", "--transform", kind, "--has-aux"]
    )
    assert done.exit_code == 0, done.output
    made: dict[str, object] = {}
    exec(done.output, made)
    function = made[f"with_aux_{kind}"]
    further = {"jvp": (T,), "hvp": (T,), "vjp": (1.0,)}.get(kind, ())
    result = function(X, 2.0, *further)  # type: ignore[operator]
    derivative = {"value_and_grad": lambda r: r[1], "jvp": lambda r: r[1]}
    found = derivative.get(kind, lambda r: r[0])(result)
    expected = {"jvp": np.sum(6 * X**2 * T), "hessian": np.diag(12 * X), "hvp": 12 * X * T}.get(kind, 6 * X**2)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_has_aux_where_it_is_needed(extra: str) -> None:
    words = [f"{extra}:with_aux", "--arg", "x=f64[3]"]
    refused = CliRunner().invoke(cli.main, ["dump", *words])
    assert refused.exit_code == 2 and "--has-aux those that return (scalar, anything)" in refused.output
    none = CliRunner().invoke(cli.main, ["dump", *words, "--has-aux", "--wrt", "none"])
    assert none.exit_code == 2 and "--has-aux is for derivatives" in none.output
    assert CliRunner().invoke(cli.main, ["check", *words, "--transform", "hessian"]).exit_code == 2
    done = CliRunner().invoke(cli.main, ["check", *words, "--transform", "hessian", "--has-aux"])
    assert done.exit_code == 0 and "x (gradient)" in done.output


@pytest.mark.parametrize("kind", ["value_and_grad", "hessian", "hvp"])
@pytest.mark.parametrize("backend", ["numpy", "c"])
def test_check_with_aux_makes_all_comparisons(extra: str, kind: str, backend: str) -> None:
    words = [f"{extra}:with_aux", "--arg", "x=f64[3]", "--wrt", "x,a", "--backend", backend]
    done = CliRunner().invoke(cli.main, ["check", *words, "--transform", kind, "--has-aux"])
    assert done.exit_code == 0, done.output
    assert all(f"{what}, backend {backend}" in done.output for what in OWN_LINES[kind])


def test_check_refuses_aux_with_vmap(extra: str) -> None:
    words = [f"{extra}:with_aux", "--arg", "x=f64[3]", "--transform", "vmap", "--has-aux"]
    done = CliRunner().invoke(cli.main, ["check", *words])
    assert done.exit_code == 2 and "--has-aux is for derivatives, not for vmap" in done.output


@pytest.mark.parametrize("kind", ["grad", "value_and_grad", "hessian", "hvp"])
def test_check_refuses_a_gradient_of_no_scalar(tmp_path: Path, kind: str) -> None:
    module = tmp_path / "vector.py"
    module.write_text("def f(x):\n    return x * 2\n")
    words = ["check", f"{module}:f", "--arg", "x=f64[3]"]
    done = CliRunner().invoke(cli.main, [*words, "--transform", kind])
    assert done.exit_code == 2
    assert f"--transform {kind} is for a function that returns a scalar [TG202]" in done.stderr
    assert CliRunner().invoke(cli.main, words).exit_code == 0


def test_a_pullback_is_not_said_to_write(extra: str) -> None:
    words = [f"{extra}:writes", "--arg", "x=f64[3]", "--arg", "out=f64[3]", "--transform"]
    assert "writes into" not in CliRunner().invoke(cli.main, ["dump", *words, "vjp"]).output
    for others in (["vjp", "--emit", "ir"], ["jvp"], ["grad"]):
        assert "# the function writes into: out" in CliRunner().invoke(
            cli.main, ["dump", *words, *others]
        ).output.replace("//", "#")


def test_a_negative_position_of_wrt_is_no_keyword(tmp_path: Path) -> None:
    module = tmp_path / "scaled.py"
    module.write_text("def f(x, y, *, k=3):\n    return x * y**k\n")
    words = ["dump", f"{module}:f", "--arg", "x=2.0", "--arg", "y=2.0", "--wrt"]
    assert "# value and gradient by y of" in CliRunner().invoke(cli.main, [*words, "-1"]).output
    assert CliRunner().invoke(cli.main, [*words, "-3"]).exit_code == 2
