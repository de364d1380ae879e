"""The queue returns every fresh unroll once, in order."""

import numpy as np
import pytest

from interreplay.unrolls.queue import FreshQueue
from tests.unrolls.unroll_builders import same, unrolls


def test_unrolls_are_returned_once_in_order():
    rng, queue, given, start = np.random.default_rng(0), FreshQueue(64), [], 0
    while len(given) < 2_000:
        if len(queue) < 64:
            size = int(rng.integers(0, 40))
            queue.add(unrolls(size, steps=1, obs=(1,), first=start))
            start += size
        count = int(rng.integers(1, 50))
        if queue.can_provide(count):
            given += queue.draw(count).version.tolist()
        assert len(queue) == start - len(given) and len(queue) < 64 + 40
    assert given == list(range(len(given))) and (queue.taken, queue.given) == (start, len(given))
    assert queue.statistics() == {"waiting": len(queue)}


def test_too_few_unrolls_are_an_error():
    queue = FreshQueue()
    queue.add(unrolls(2))
    with pytest.raises(ValueError, match="3 fresh unrolls are due and 2 are waiting"):
        queue.draw(3)
    assert queue.draw(2).fresh.all() and len(queue) == 0
    with pytest.raises(ValueError, match="capacity is 0; expected an integer of 1 or more"):
        FreshQueue(0)


@pytest.mark.parametrize("waiting", [0, 7])
def test_a_restored_state_continues(waiting):
    one, two = FreshQueue(4), FreshQueue(4)
    one.add(unrolls(waiting + 3, obs={"a": (2,), "b": (3,)}, state={"h": (2,)}))
    one.draw(3)
    two.load_state_dict(one.state_view())
    assert len(two) == waiting and two.nbytes == one.nbytes
    for queue in (one, two):
        queue.add(unrolls(2, first=50, obs={"a": (2,), "b": (3,)}, state={"h": (2,)}))
    assert same(one.draw(waiting + 2), two.draw(waiting + 2)) and one.taken == two.taken
