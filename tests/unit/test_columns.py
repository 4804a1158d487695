"""What a gang adds to the bound of the pattern LP, against trying every choice of its pods."""

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from extender.packing.columns import most_gained

PARTS = st.lists(st.tuples(st.integers(-5, 5), st.integers(1, 4)), min_size=1, max_size=3)


@given(parts=PARTS, data=st.data())
def test_most_gained_is_the_best_choice_of_enough_pods(parts, data):
    pods = [count for _, count in parts]
    least = data.draw(st.integers(-1, sum(pods)))
    choices = (taken for taken in product(*(range(count + 1) for count in pods)) if sum(taken) >= least)
    best = max(sum(gain * n for (gain, _), n in zip(parts, taken, strict=True)) for taken in choices)
    assert most_gained(parts, least) == best
