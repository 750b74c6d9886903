"""Names that are given out: the first free ones, found without trying all that were given before."""

from __future__ import annotations

from tracegrad.codegen.variables import Names


class Counting(set[str]):
    """A set that counts how often it is asked."""

    asked = 0

    def __contains__(self, item: object) -> bool:
        self.asked += 1
        return super().__contains__(item)


def test_the_first_free_name_is_found_soon() -> None:
    names = Names({"x", "x_2"})
    names.taken = counting = Counting(names.taken)
    given = [names.fresh("x") for _ in range(300)]
    assert given[:3] == ["x_1", "x_3", "x_4"]
    assert len(set(given)) == 300
    assert counting.asked < 2 * 300 + 10
