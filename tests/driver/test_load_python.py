"""Generated Python: tracebacks show its lines."""

from __future__ import annotations

import gc
import inspect
import linecache
import traceback

import numpy as np
import pytest

from tracegrad.driver.load_python import load_python
from tracegrad.errors import CompileError

SOURCE = "import numpy as np\n\n\ndef loss(x):\n    return np.linalg.inv(x)  # a line of the text\n"


def test_tracebacks_show_generated_lines() -> None:
    loss = load_python(SOURCE, "loss")
    with pytest.raises(np.linalg.LinAlgError) as raised:
        loss(np.zeros((2, 2)))
    linecache.checkcache()
    text = "".join(traceback.format_exception(raised.value))
    assert "return np.linalg.inv(x)  # a line of the text" in text
    assert inspect.getsource(loss).startswith("def loss(x):")


def test_each_text_has_a_name_of_its_own_and_is_forgotten() -> None:
    first, second = load_python(SOURCE, "loss"), load_python(SOURCE, "loss", "model.py")
    names = first.__code__.co_filename, second.__code__.co_filename
    assert names[0] != names[1] and "model.py" in names[1]
    del first, second
    gc.collect()
    assert not set(names) & set(linecache.cache)


def test_a_namespace_is_visible() -> None:
    assert load_python("def f():\n    return k\n", "f", namespace={"k": 5})() == 5


def test_text_that_nests_deeper_than_python_allows_is_refused() -> None:
    indented = "".join("    " * (k + 1) + "if x:\n" for k in range(110)) + "    " * 111 + "pass\n"
    with pytest.raises(CompileError, match="too many levels of indentation in f"):
        load_python(f"def f(x):\n{indented}", "f")
    with pytest.raises(SyntaxError):
        load_python("def f(x):\n    return (x\n", "f")
