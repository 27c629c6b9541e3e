from __future__ import annotations

import pytest
import torch

from rag.attention.memory import in_halves


def limited(most, log):
    """Doubles numbers, but has memory for ``most`` of them at once."""

    def run(items):
        log.append(len(items))
        if len(items) > most:
            raise torch.OutOfMemoryError("no memory")
        return [2 * item for item in items]

    return run


@pytest.mark.parametrize("most", [1, 2, 3, 7, 100])
def test_results_are_those_of_one_run_in_order(most):
    assert in_halves(limited(most, []), list(range(13))) == [2 * i for i in range(13)]


def test_what_fits_is_run_once():
    log: list[int] = []
    in_halves(limited(8, log), list(range(8)))
    assert log == [8]


def test_one_item_that_does_not_fit_and_other_failures_are_raised():
    with pytest.raises(torch.OutOfMemoryError):
        in_halves(limited(0, []), [1, 2])

    def broken(_):
        raise RuntimeError("shape mismatch")

    with pytest.raises(RuntimeError, match="shape"):
        in_halves(broken, [1, 2])


def test_a_cpu_that_has_no_memory_is_recognised():
    with pytest.raises(RuntimeError) as caught:
        torch.empty(1 << 60)
    from rag.attention.memory import is_out_of_memory

    assert is_out_of_memory(caught.value)
