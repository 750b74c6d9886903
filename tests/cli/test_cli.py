"""The commands: what they print, and their exit codes."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest

from tests.cli.conftest import Run
from tracegrad.ir.opdef import TABLE
from tracegrad.ir.parser import parse_function

ROOT = Path(__file__).parents[2]
LOSS = ("model.py:loss", "--arg", "params={w: f64[3], b: f64[]}", "--arg", "x=f64[4,3]", "--arg", "y=f64[4]")


def python(*words: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    everything = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    return subprocess.run(
        [sys.executable, *words], cwd=cwd, env=everything, text=True, capture_output=True, check=False
    )


# ---- dump


def test_dumped_python_runs_alone(run: Run, project: Path) -> None:
    made = run("dump", *LOSS, "--wrt", "params,lr", "-o", "alone.py")
    assert made.exit_code == 0, made.output
    assert made.stdout == ""
    assert made.stderr.startswith("wrote alone.py (")
    (project / "use.py").write_text(
        "import sys, numpy as np\n"
        "from alone import loss_value_and_grad\n"
        "data = np.load('batch.npz')\n"
        "params = {'w': data['params.w'], 'b': data['params/b']}\n"
        "outside = {'SCALE': 2.5, 'WEIGHTS': np.array([1.0, 2.0, 3.0])}\n"
        "value, (by_params, by_lr) = loss_value_and_grad(params, data['x'], data['y'], **outside)\n"
        "assert 'tracegrad' not in sys.modules\n"
        "print(float(value), *by_params['w'], float(by_lr))\n"
    )
    done = python("use.py", cwd=project, PYTHONPATH="")
    assert done.returncode == 0, done.stderr
    check = run("check", "model.py:loss", "--inputs", "batch.npz", "--wrt", "params,lr", "--points", "1")
    assert check.exit_code == 0, check.output
    assert np.isfinite([float(word) for word in done.stdout.split()]).all()


def test_header_names_everything(run: Run) -> None:
    text = run("dump", *LOSS).stdout
    assert text.splitlines()[:5] == [
        "# value and gradient by params of model.py:loss",
        '# arguments: params["w"]: f64[3], params["b"]: f64[], x: f64[4,3], y: f64[4], lr: float',
        "# fixed in this code, whatever is passed: n = 3",
        "# read from outside the function, passed by keyword: SCALE: float, WEIGHTS: f64[3]",
        "# made by tracegrad 0.1.0: tracegrad dump model.py:loss --arg 'params={w: f64[3], b: f64[]}' "
        "--arg 'x=f64[4,3]' --arg 'y=f64[4]'",
    ]


@pytest.mark.parametrize(
    "arguments", [LOSS, ("model.py:writes", "--arg", "x=f64[3]"), ("model:square", "--arg", "x=f64[n]")]
)
@pytest.mark.parametrize("wrt", ["0", "none"])
def test_dumped_c_compiles_without_a_warning(run: Run, project: Path, arguments: tuple[str, ...], wrt: str) -> None:
    made = run("dump", *arguments, "--wrt", wrt, "--emit", "c", "-o", "a file /* ??/ *.c")
    assert made.exit_code == 2  # there is no directory of that name
    made = run("dump", *arguments, "--wrt", wrt, "--emit", "c", "--arg", "n=2") if "loss" in arguments[0] else None
    made = made or run("dump", *arguments, "--wrt", wrt, "--emit", "c")
    assert made.exit_code == 0, made.output
    (project / "alone.c").write_text(made.stdout)
    done = subprocess.run(
        ["cc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-c", "alone.c"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_words_of_the_call_do_not_end_the_comment(run: Run, project: Path) -> None:
    made = run("dump", "model.py:flagged", "--arg", "x=f64[3]", "--arg", "flag='*/ /* ??/ \\'", "--emit", "c")
    (project / "alone.c").write_text(made.stdout)
    subprocess.run(["cc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-c", "alone.c"], check=True)
    made = run("dump", "model.py:flagged", "--arg", "x=f64[3]", "--arg", "flag='a\nb'")
    compile(made.stdout, "alone.py", "exec")


def test_dumped_ir_can_be_read_again(run: Run) -> None:
    captured = run("dump", *LOSS, "--emit", "ir").stdout
    assert captured.startswith("// captured function model.py:loss\n")
    assert parse_function(captured).name == "loss"
    gradient = run("dump", *LOSS, "--emit", "vjp-ir", "--no-value").stdout
    assert parse_function(gradient).name == "loss_grad"
    assert "ct_w" in gradient


def test_symbolic_sizes(run: Run, project: Path) -> None:
    made = run("dump", "model:square", "--arg", "x=f64[n,3]", "--no-value")
    assert "# sizes: n >= 2\n" in made.stdout
    scope: dict[str, object] = {}
    exec(compile(made.stdout, "alone.py", "exec"), scope)
    for rows in (2, 5):
        x = np.random.default_rng(0).normal(size=(rows, 3))
        np.testing.assert_array_equal(scope["square_grad"](x), 2 * x)  # type: ignore[operator]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("model.py:square", "--arg", "x=f64[3]", "--wrt", "none"), "def square(x):"),
        (("model:square", "--arg", "x=f64[3]", "--no-value"), "def square_grad(x):"),
        (("model:model.value", "--arg", "x=f64[3]"), "def value_value_and_grad(x"),
        (("model:decorated", "--arg", "x=f64[3]"), "def decorated_value_and_grad(x):"),
        (("model:flagged", "--arg", "x=f64[3]", "--arg", "flag=True", "--wrt", "x,scale"), "flag = True"),
        (("model:total", "--arg", "xs=(f64[3], f64[])", "--arg", "k=2.0", "--wrt", "xs_1,k"), "by xs_1, k of"),
        (("model:layers", "--inputs", "stack.npz"), 'stack[1]["w"]: f64[3,1]'),
        (("model:loss", "--inputs", "batch.json", "--wrt", "1"), "by x of model:loss"),
        (("package/part.py:f", "--arg", "x=f64[3]"), "other.py:2"),
        (("model:writes", "--arg", "x=f64[3]"), "# the function writes into: x\n"),
        (("math:sin", "--arg", "x=0.5"), "np.cos(x)"),
    ],
)
def test_dump(run: Run, words: tuple[str, ...], expected: str) -> None:
    made = run("dump", *words)
    assert made.exit_code == 0, made.output
    assert expected in made.stdout
    compile(made.stdout, "alone.py", "exec")


def test_what_modules_and_functions_print_stays_out_of_the_code(run: Run, project: Path) -> None:
    (project / "loud.py").write_text("print('imported')\n" + (project / "model.py").read_text())
    made = run("dump", "loud.py:loud", "--arg", "x=f64[3]")
    assert made.stdout.startswith("# value and gradient")
    assert "imported" in made.stderr


# ---- errors


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("dump model", "write module:function"),
        ("dump model.py", "write model.py:FUNCTION"),
        ("dump model:", "the target does not name a function"),
        ("dump dir/model:f", "names neither a module nor a Python file"),
        ("dump modle.py:loss", "did you mean model.py?"),
        ("dump nowhere:loss", "there is no module nowhere"),
        ("dump package.nowhere:loss", "there is no module package.nowhere"),
        ("dump model:los", "did you mean loss?"),
        ("dump model:model.valu", "did you mean value?"),
        ("dump model:VALUE", "VALUE in model is not a function"),
        ("dump model:Model", "Model in model is a class"),
        ("dump model:Model.value --arg x=f64[3]", "module:instance.method"),
        ("dump broken.py:f", "ZeroDivisionError: division by zero, at {0}/broken.py:2: y = x / 0"),
        ("dump broken:f", "broken cannot be imported"),
        ("dump syntax.py:f", "syntax.py:1: def f(:"),
        ("dump needs:f", "No module named 'a_module_that_is_not_there'"),
        ("dump leaves.py:f", "SystemExit: 4"),
        ("dump model:loss", "loss needs a value for params, x, y"),
        ("dump model:square --arg x=f64[3] --arg y=f64[3]", "square has no argument y"),
        ("dump model:square --arg x=f64[3] --arg x=f64[4]", "x is given twice"),
        ("dump model:square --arg x=f64[3", "a closing ] is missing"),
        ("dump model:square --arg x=3", "the gradient with respect to x is not defined"),
        ("dump model:square --arg x=i64[3]", "= here: choose another argument with --wrt"),
        ("dump model:square --arg x=f64[3] --wrt z", "--wrt names no argument: z"),
        ("dump model:square --arg x=f64[3] --wrt 1", "--wrt names no argument: 1"),
        ("dump model:square --arg x=f64[3] --wrt x,0", "an argument twice"),
        ("dump model:rows --arg x=f64[3]", "= here: --wrt none dumps the function itself"),
        ("dump model:product --arg x=f64[2,3] --arg y=f64[2]", "in product\n"),
        ("dump model:first_key --arg p={w:f64[]}", "KeyError: 'v', at {0}/model.py:22: return p["),
        ("dump model:four_rows --arg x=f64[n]", "x: f64[n], tried with n = 7"),
        ("dump model:square --inputs none.npz", "there is no file none.npz"),
        ("dump model:square --inputs model.py", ".npz and .json files"),
        ("dump model:square --inputs objects.npz", "x, which is damaged or holds Python objects"),
        ("dump model:square --inputs text.npz", "its content is not the zip archive that an .npz file is"),
        ("dump model:square --inputs broken.json", "not valid JSON"),
        ("dump model:square --inputs list.json", "must hold one object"),
        ("dump model:square --arg x=f64[3] -o none/x.py", "none/x.py cannot be written"),
        ("dump model:square --arg x=f64[3] --emit rust", "'rust' is not one of"),
        ("check model:square --arg x=f64[3] --wrt none", "there is no gradient to check"),
        ("check model:square --arg x=f64[3] --wrt x.w", "a derivative is taken by a whole argument: --wrt x, which"),
        ("dump model:square --inputs list.jsn", "did you mean list.json?"),
        ("dump model:square --inputs lst.json", "did you mean list.json?"),
        ("check model:entropy --arg p=f64[3]", "= here: give data with --inputs"),
        ("check model:entropy --arg p=f64[3] --range 2,1", "2 is not below 1"),
        ("check model:entropy --arg p=f64[3] --range 2", "write two numbers"),
        ("cache why nothing", "the cache has no entry for nothing"),
        (
            "cache why",
            "missing argument 'NAME'\n   = usage: tracegrad cache why [OPTIONS] NAME\n   = help: `tracegrad cache ",
        ),
        ("dump", "missing argument 'TARGET'\n   = usage: "),
        ("dump model:square --frob", "no such option '--frob'\n   = usage: "),
        ("--frob", "no such option '--frob'\n   = usage: "),
        ("nothing", "no such command 'nothing'\n   = usage: "),
        ("dump model:np", "np in model is not a function [TG804]\n   = found: the module numpy\n"),
        ("dump model:model", "found: an object of the class Model\n"),
        ("dump os:getcwd --wrt none", "getcwd in os is written in C"),
    ],
)
def test_bad_calls(run: Run, project: Path, words: str, says: str) -> None:
    done = run(*words.split())
    assert done.exit_code == 2, done.output
    assert done.stdout == ""
    assert says.format(project) in done.stderr
    assert "Traceback" not in done.stderr


def test_whole_message(run: Run) -> None:
    assert run("dump", "model:los").stderr == (
        "error: model has no los [TG804]\n"
        "   = found: its functions are: cut, decorated, entropy, first_key, flagged, four_rows, layers, loss, loud, "
        "prints, product, rows, square, total, writes\n"
        "   = help: did you mean loss?\n"
    )


def test_fault_of_tracegrad(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: object) -> str:
        raise RuntimeError("out of order")

    monkeypatch.setattr("tracegrad.driver.pipeline.source_text", fail)
    done = run("dump", "model:square", "--arg", "x=f64[3]")
    assert done.exit_code == 3
    assert "this is a fault of tracegrad: RuntimeError: out of order" in done.stderr
    assert "run: tracegrad dump model:square --arg 'x=f64[3]' --traceback" in done.stderr
    assert "Traceback" not in done.stderr
    done = run("dump", "model:square", "--arg", "x=f64[3]", "--traceback")
    assert done.exit_code == 3
    assert "Traceback" in done.stderr


# ---- check


def test_check_agrees(run: Run) -> None:
    done = run("check", *LOSS, "--wrt", "params,x,lr", "--points", "2")
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert lines[3].split() == ["argument", "numpy", "c"]
    assert [line.split()[0] for line in lines[4:8]] == ["(value)", "params", "x", "lr"]
    assert all(float(digits) > 6 for line in lines[4:8] for digits in line.split()[1:])
    assert lines[-1] == "agreed"


@pytest.mark.parametrize(
    "words",
    [
        "model:rows --arg x=f64[n]",
        "model:decorated --arg x=f32[3]",
        "model:entropy --arg p=f64[n] --range 0.1,1 --points 1",
        "model:layers --inputs stack.npz --wrt stack,x --points 1",
        "model:writes --arg x=f64[3] --backend numpy",
    ],
)
def test_check_of_other_functions(run: Run, words: str) -> None:
    done = run("check", *words.split())
    assert done.exit_code == 0, done.output


def test_check_disagrees(run: Run) -> None:
    done = run("check", "model:cut", "--arg", "x=f64[2]", "--seed", "3")
    assert done.exit_code == 1
    assert "WRONG" in done.stdout
    assert "at point 1 of 3:\n  x = array([" in done.stdout
    assert done.stdout.endswith("disagreed\n")
    assert done.stdout == run("check", "model:cut", "--arg", "x=f64[2]", "--seed", "3").stdout


def test_check_says_what_was_not_checked(run: Run) -> None:
    done = run("check", "model:prints", "--arg", "x=f64[3]", "--points", "1")
    assert done.exit_code == 0
    assert "backend c was not checked, see the warning" in done.stdout
    assert "warning: the C backend does not support" in done.stderr


def test_check_says_where_differences_cannot_tell_more(run: Run, tmp_path: Path) -> None:
    module = tmp_path / "offset.py"
    module.write_text("def f(a, b):\n    return 1e6 * a + 1e-5 * b * b\n")
    done = run("check", f"{module}:f", "--arg", "a=f64[]", "--arg", "b=f64[]", "--wrt", "a,b")
    assert done.exit_code == 0
    assert "\nb: rounding of the result leaves the differences no more digits\n" in done.stdout


def test_check_tells_errors_of_the_function_at_any_point(run: Run, tmp_path: Path) -> None:
    module = tmp_path / "raises.py"
    module.write_text("def f(x):\n    if x[0] < 0:\n        raise ValueError('negative')\n    return sum(x * x)\n")
    done = run("check", f"{module}:f", "--arg", "x=f64[3]")
    assert done.exit_code == 2
    assert "the function fails at these inputs, without tracegrad too [TG809]" in done.stderr
    assert "ValueError: negative" in done.stderr and "--range draws floats from an interval" in done.stderr
    assert run("check", f"{module}:f", "--arg", "x=f64[3]", "--range", "1,2").exit_code == 0


def test_fields_are_arguments(run: Run, tmp_path: Path) -> None:
    module = tmp_path / "fields.py"
    module.write_text(FIELDS)
    given = ("x=f64[4,3]", "p.noise.scale=f64[]", "options.power=3")
    words = ("check", f"{module}:loss", *(word for text in given for word in ("--arg", text)))
    done = run(*words, "--arg", "p.w=f64[3]", "--wrt", "p")
    assert done.exit_code == 0, done.output
    assert "p.w: f64[3], p.noise.scale: f64[], p.noise.shift: float, p.b: float" in done.stdout
    assert "options.power = 3, options.rate: float" in done.stdout
    missing = run(*words)
    assert missing.exit_code == 2 and "p needs a value for w [TG806]" in missing.stderr
    misspelt = run(*words, "--arg", "p.w=f64[3]", "--arg", "options.rat=0.1")
    assert misspelt.exit_code == 2 and "did you mean rate?" in misspelt.stderr


FIELDS = """
from __future__ import annotations
from dataclasses import dataclass
from typing import NamedTuple
import numpy as np


class Noise(NamedTuple):
    scale: float
    shift: float = 0.5


@dataclass(frozen=True)
class Parameters:
    w: np.ndarray
    noise: Noise
    b: float = 1.0


@dataclass
class Options:
    power: int = 2
    rate: float = 0.1


def loss(p: Parameters, x, options=Options()):
    return np.sum((x @ p.w + p.b) ** options.power) * p.noise.scale + options.rate * p.noise.shift
"""


def test_check_says_the_sizes(run: Run) -> None:
    checked = run("check", "model:square", "--arg", "x=f64[n]", "--points", "2")
    assert "least of 2 random inputs, n = 7, 11, seed 0" in checked.stdout


def test_check_tries_rules_in_all_their_arguments(run: Run) -> None:
    words = ("check", "rules:uses_wave", "--arg", "x=f64[2]", "--arg", "y=f64[2]", "--points", "1")
    done = run(*words)
    assert done.exit_code == 1
    assert "WRONG" not in done.stdout
    assert "not checked by y; by all: --wrt x,y\n" in done.stdout
    assert "the rule of wave is wrong: the slope along a random direction of y is" in done.stdout
    assert done.stdout.endswith("disagreed\n")
    every = run(*words, "--wrt", "x,y")
    assert every.exit_code == 1
    assert "WRONG" in every.stdout
    assert "not checked" not in every.stdout


def test_check_accepts_a_rule_that_leaves_out_an_argument(run: Run) -> None:
    words = ("check", "rules:fit", "--arg", "w=f64[2]", "--arg", "y=f64[2]", "--points", "1")
    done = run(*words)
    assert done.exit_code == 0, done.output
    assert "not checked by y; by all: --wrt w,y\n" in done.stdout
    every = run(*words, "--wrt", "w,y")
    assert every.exit_code == 1
    assert "the rule of fit is wrong: the slope along a random direction of y is 0," in every.stdout


def test_check_ends_where_the_function_does_not(run: Run) -> None:
    done = run("check", "rules:newton", "--arg", "a=f64[]", "--time-limit", "0.5")
    assert done.exit_code == 2
    assert "error: the function does not end at this input [TG813]" in done.stderr
    assert "found: no end after 0.5 s at a = array(-0.1321" in done.stderr
    assert "help: give values where it ends: --arg a=2.0, --range 0.1,2 or" in done.stderr
    given = run("check", "rules:newton", "--arg", "a=-2.0", "--time-limit", "0.5")
    assert given.stderr.endswith("= help: --time-limit 3 waits longer\n")
    assert run("check", "rules:newton", "--arg", "a=2.0").exit_code == 0


def test_check_ends_where_compiled_code_does_not(project: Path) -> None:
    words = ("-m", "tracegrad", "check", "rules:calls_endless", "--arg", "x=-2.0", "--time-limit", "0.5")
    done = python(*words, cwd=project)
    assert done.returncode != 0
    assert "in calls_endless" in done.stderr


@pytest.mark.parametrize("kind", ["hessian", "hvp"])
def test_check_says_what_a_hessian_is_of(run: Run, kind: str) -> None:
    done = run("check", "model:rows", "--arg", "x=f64[3]", "--transform", kind)
    assert done.exit_code == 2
    assert f"error: --transform {kind} is for a function that returns a scalar [TG202]" in done.stderr
    assert "without --transform the derivatives of all results are checked" in done.stderr
    assert "here:" not in done.stderr
    dumped = run("dump", "model:rows", "--arg", "x=f64[3]", "--transform", kind)
    assert "= here: --wrt none dumps the function itself; --transform jacobian takes" in dumped.stderr


# ---- cache, ops


def test_cache_has_names_of_the_user(
    run: Run, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACEGRAD_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
    (tmp_path / "heat.py").write_text("def heat(x, *, tol=1e-8):\n    return (x**2).sum() + tol\n")
    target = f"{tmp_path / 'heat.py'}:heat"
    assert run("check", target, "--arg", "x=f64[3]", "--arg", "tol=1e-8", "--points", "1").exit_code == 0
    listed = json.loads(run("cache", "list", "--json").stdout)
    names = {entry["name"] for entry in listed["entries"]} - {"tracegrad_launcher"}
    assert names == {"heat", "heat_value_and_grad", "heat_jvp", "heat_vjp"}
    assert run("cache", "why", "heat").exit_code == 0


def test_cache_commands(run: Run, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("TRACEGRAD_CACHE_DIR", str(directory))
    assert run("cache", "list").stdout == f"0 entries, 0 B of 1.0 GB, in {directory}/v1\n"
    assert run("check", "model:square", "--arg", "x=f64[3]", "--points", "1").exit_code == 0
    listed = json.loads(run("cache", "list", "--json").stdout)
    digests = {entry["name"]: entry["digest"] for entry in listed["entries"]}
    assert "square_value_and_grad" in digests
    assert all(entry["size_bytes"] > 0 for entry in listed["entries"])
    assert "square_value_and_grad" in run("cache", "list").stdout
    assert run("check", "model:entropy", "--arg", "p=f64[3]", "--range", "0.1,1", "--points", "1").exit_code == 0
    names = [row.split()[0] for row in run("cache", "list").stdout.splitlines() if "entropy" in row or "square" in row]
    assert "entropy" in names[-1] and len(names) > 2
    assert "square" not in run("cache", "list", "entropy").stdout
    last = run("cache", "list", "--limit", "1").stdout.splitlines()
    assert last[-3].startswith(names[-1]) and last[-2] == "the last 1; all: --limit 0"
    kept = json.loads(run("cache", "list", "--json").stdout)["entries"]
    assert len(run("cache", "list", "--limit", "0").stdout.splitlines()) == len(kept) + 2
    assert "request: value_and_grad" in run("cache", "why", "square_value_and_grad").stdout
    assert "request: value_and_grad" in run("cache", "why", digests["square_value_and_grad"][:10]).stdout
    assert run("cache", "verify").exit_code == 0
    with open(Path(listed["directory"]) / digests["square_value_and_grad"] / "input.txt", "a") as file:
        file.write("more")
    verified = run("cache", "verify")
    assert verified.exit_code == 1
    assert f"{digests['square_value_and_grad'][:12]}: input.txt has" in verified.stdout
    count = len(json.loads(run("cache", "list", "--json").stdout)["entries"])
    assert run("cache", "clear").stdout.startswith(f"removed {count} entr")
    assert run("cache", "list").stdout.startswith("0 entries")


@pytest.mark.parametrize("words", [("clear",), ("list",), ("verify",), ("why", "loss")])
def test_a_cache_that_the_system_refuses(run: Run, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]) -> None:
    def refused(path: Path) -> NoReturn:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "iterdir", refused)
    done = run("cache", *words)
    assert done.exit_code == 2
    assert "error: the system refuses a file [TG814]\n   = found: Permission denied: " in done.stderr


def test_places_are_shown_from_the_current_directory(run: Run, project: Path) -> None:
    (project / "eigen.py").write_text("import numpy as np\n\n\ndef f(x):\n    return np.linalg.eigvals(x)\n")
    assert "\n  --> eigen.py:5:12 in f\n" in run("dump", "eigen.py:f", "--arg", "x=f64[3,3]").stderr
    assert "\n  model.py:" in run("explain", *LOSS).stdout


def test_check_refuses_what_has_no_derivative(run: Run, project: Path) -> None:
    (project / "counts.py").write_text("import numpy as np\n\n\ndef f(x):\n    return int(np.sum(x))\n")
    for words in (("check",), ("check", "--transform", "grad"), ("dump",)):
        done = run(*words, "counts.py:f", "--arg", "x=f64[3]")
        assert done.exit_code == 2 and "[TG202]\n   = found: f returns i64[], which does not depend" in done.stderr


def test_ops_show_the_c_of_each_kind(run: Run) -> None:
    rows = {row.split()[0]: " ".join(row.split()[1:]) for row in run("ops", "--field", "c").stdout.splitlines()}
    assert rows["absolute"].startswith("x float: fabs{f}({x}), complex: ")
    assert rows["bessel_j"] == "x tg_bessel_j(order, ...)"
    assert not any(" emit " in row or "emitter" in row for row in rows.values())


@pytest.mark.parametrize("field", ["doc", "vjp", "numpy", "c", "python"])
def test_every_op_is_shown(run: Run, field: str) -> None:
    lines = run("ops", "--field", field).stdout.splitlines()
    assert [line.split()[0] for line in lines[1:]] == sorted(TABLE)


def test_rules_are_shown_as_written(run: Run) -> None:
    lines = {line.split()[0]: line for line in run("ops", "--field", "vjp").stdout.splitlines()}
    assert lines["sin"].endswith("partial cos(x)")
    assert lines["floor"].endswith("NONDIFF")
    assert lines["while"].endswith("BY_TRANSFORM")


def test_covered_functions(run: Run) -> None:
    names = run("ops", "--numpy").stdout.splitlines()
    assert {"numpy.einsum", "numpy.add.at", "numpy.linalg.solve", "math.erf", "builtins.len"} <= set(names)
    assert not {"numpy.random.rand", "numpy.linalg.eig"} & set(names)
    assert all(name[0].isalpha() for name in names)


# ---- as a process


def test_process(project: Path) -> None:
    done = python("-m", "tracegrad", "--version", cwd=project)
    assert (done.returncode, done.stdout) == (0, "tracegrad 0.1.0\n")
    done = python("-m", "tracegrad", "dump", "nowhere:f", cwd=project)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: there is no module nowhere [TG802]\n")


def test_broken_pipe_is_quiet(project: Path) -> None:
    command = f"'{sys.executable}' -m tracegrad ops; echo $? >&2"
    done = subprocess.run(
        ["sh", "-c", f"({command}) | true"],
        env={**os.environ, "PYTHONPATH": str(ROOT)}, text=True, capture_output=True, check=True,
    )  # fmt: skip
    assert done.stderr == "141\n"


def test_package_does_not_import_the_command_line(project: Path) -> None:
    code = "import sys, tracegrad; print([m for m in ('click', 'rich', 'tracegrad.cli') if m in sys.modules])"
    assert python("-c", code, cwd=project).stdout == "[]\n"


@pytest.mark.parametrize("command", ["dump", "check", "cache", "ops"])
def test_help(run: Run, command: str) -> None:
    done = run(command, "--help")
    assert done.exit_code == 0
    assert all(len(line) <= 80 for line in done.stdout.splitlines())


def test_dump_for_any_size_of_what_is_unrolled(run: Run, tmp_path: Path) -> None:
    module = tmp_path / "unrolled.py"
    case = (ROOT / "tests" / "errors" / "cases" / "TG815.py").read_text()
    module.write_text(case[: case.index("def run")])
    refused = run("dump", f"{module}:f", "--arg", "x=f64[n]")
    assert refused.exit_code == 2 and "code for any size n cannot be made of this function [TG815]" in refused.stderr
    assert "unrolled.py:" in refused.stderr and "for i in range(len(x))" in refused.stderr
    explained = run("explain", f"{module}:f", "--arg", "x=f64[7]").stdout
    assert "comprehension: run at capture, over Python values\n      return decay([x[i] for i" in explained
    assert run("dump", f"{module}:f", "--arg", "x=f64[7]").exit_code == 0
