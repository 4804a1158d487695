"""Many nodes of few kinds, what may happen on them, and the Snapshot after it."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from extender.ledger import with_booked
from tests.builders import node, pod

FLEET = [
    *(node(f"a{i}").label("model", "A100").gpus(8, "A100").build() for i in range(6)),
    *(node(f"t{i}").label("model", "T4").gpus(4, "T4").build() for i in range(6)),
    node("v").gpus(4, "T4").unready().build(),
    node("w").build(),
]


@st.composite
def shaped(draw, uid, *places):
    """Draw a pod of one of few shapes, on one of the places ("": it waits)."""
    made = pod(uid).gpus(draw(st.sampled_from((1, 1, 2, 4)))).cpu(draw(st.sampled_from((4, 4, 12))))
    made = made.memory(draw(st.sampled_from((16, 16, 500))))
    model = draw(st.sampled_from(("", "", "A100", "T4")))
    made = made.select("model", model) if model else made
    place = draw(st.sampled_from(places))
    return (made.on(place) if place else made).build()


@st.composite
def fleet_steps(draw):
    """Draw what happens: a pod comes, moves on or goes, or something is booked."""
    uid = f"u{draw(st.integers(0, 5))}"
    return draw(
        st.one_of(
            st.tuples(st.just("pod"), shaped(uid, "", "a0", "a1", "a2", "t0", "t1", "v")),
            st.tuples(st.just("pod"), shaped(uid, "", "a0", "a1", "a2", "t0", "t1", "v")),
            st.tuples(st.just("no pod"), st.just(f"uid-ml-{uid}")),
            st.tuples(st.just("book"), st.tuples(st.integers(0, 11), st.integers(0, 4))),
        )
    )


def after(snapshot, kind, what):
    """Return the Snapshot after a step."""
    if kind == "node":
        booked = None if snapshot.booked is None else np.zeros_like(snapshot.with_node(what).used)
        return with_booked(snapshot.with_node(what), booked)
    if kind == "book":
        row, gpus = what
        booked = np.zeros_like(snapshot.used)
        booked[4:, row % len(snapshot)] = gpus
        return with_booked(snapshot, booked)
    uid = what if kind == "no pod" else what.uid
    known = [*snapshot.pending.values(), *(p for g in (*snapshot.pods, *snapshot.orphans.values()) for p in g)]
    return snapshot.with_changes(gone=[p for p in known if p.uid == uid], come=[] if kind == "no pod" else [what])
