"""What a client sends, cut into requests: whatever the pieces, the same; chunks as gunicorn reads them."""

from __future__ import annotations

from itertools import pairwise

import pytest
from gunicorn.config import Config
from gunicorn.http.body import Body, ChunkedReader
from gunicorn.http.errors import NoMoreData, ParseException
from gunicorn.http.unreader import IterUnreader
from hypothesis import given
from hypothesis import strategies as st

from extender.errors import TransferError
from extender.httpd.arrivals import Arrivals
from extender.httpd.bodies import ChunkedBody, SizedBody
from extender.httpd.channel import Channel
from extender.httpd.connection import Connection, Outlet, Phase
from extender.httpd.heads import HEAD_BYTES
from extender.httpd.rules import Memory, worth

CLIENT = ("127.0.0.1", 1)
MOST = 10_000


def arrivals(most=MOST):
    return Arrivals(Config(), CLIENT, most)


def request(body=b"", *headers, method=b"POST", path=b"/filter", version=b"1.1"):
    lines = [b"%b %b HTTP/%b" % (method, path, version), b"Host: x", *headers]
    if body:
        lines.append(b"Content-Length: %d" % len(body))
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def chunked(*pieces, end=b"0\r\n\r\n"):
    head = b"POST /filter HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    return head + b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + end


def outcomes(made, data):
    """Feed bytes; return (method, path, body or status) of what came of them."""
    ended = made.feed(data)
    while ended is not None:
        yield outcome(ended)
        if isinstance(ended, TransferError) or isinstance(ended.body, TransferError):
            return
        ended = made.feed()


def outcome(ended):
    if isinstance(ended, TransferError):
        return ended.status
    body = ended.body.status if isinstance(ended.body, TransferError) else ended.opened().body.read()
    return ended.request.method, ended.request.path, body


def cut(data, places):
    edges = [0, *sorted({place % (len(data) + 1) for place in places}), len(data)]
    return [data[at:end] for at, end in pairwise(edges)]


# -- requests ------------------------------------------------------------------------------------------------------

messages = st.lists(
    st.binary(max_size=40).map(request)
    | st.lists(st.binary(min_size=1, max_size=20), max_size=3).map(lambda pieces: chunked(*pieces))
    | st.just(request(method=b"GET", path=b"/healthz")),
    max_size=4,
)


@given(messages=messages, places=st.lists(st.integers(0, 2000), max_size=12))
def test_requests_are_the_same_however_the_bytes_are_cut(messages, places):
    data = b"".join(messages)
    whole = list(outcomes(arrivals(), data))
    assert len(whole) == len(messages)
    in_pieces = arrivals()
    assert [each for piece in cut(data, places) for each in outcomes(in_pieces, piece)] == whole
    assert not in_pieces.begun
    assert in_pieces.count == len(messages)


@given(
    data=st.binary(max_size=200) | st.builds(lambda a, b: request(b"x" * 9)[:a] + b, st.integers(0, 80), st.binary())
)
def test_nothing_but_a_refusal_comes_of_random_bytes(data):
    for each in outcomes(arrivals(), data):
        assert isinstance(each, tuple) or 400 <= each < 500


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"\x16\x03\x01\x02\x00\x01", 400),  # TLS, at once
        (b"nonsense\r\n\r\n", 400),
        (b"GET / HTTP/1.1\nHost: x\n\n", 400),
        (b"GET /\r\n\r\n", 400),
        (b"get / HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/3.0\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nno colon\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nA: b\r\n folded\r\n\r\n", 400),
        (request(b"x", b"Content-Length: 1"), 400),
        (request(b"x", b"Transfer-Encoding: chunked"), 400),
        (request(b"", b"Content-Length: -5"), 400),
        (request(b"", b"Content-Length: \xb2"), 400),
        (request(b"", b"Content-Length: " + b"9" * 5000), 400),
        (request(b"", b"Transfer-Encoding: chunked", version=b"1.0"), 400),
        (request(b"", b"Transfer-Encoding: odd"), 501),
        (request(b"", b"Expect: wonders"), 417),
        (request(path=b"/" + b"x" * 5000), 414),
        (request(b"", b"A: " + b"x" * 9000), 431),
        (request(b"", *[b"A: b"] * 200), 431),
        (b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * HEAD_BYTES, 431),
    ],
)
def test_what_is_no_request_is_refused_with_a_reason(data, status):
    ended = arrivals().feed(data)
    assert isinstance(ended, TransferError)
    assert ended.status == status
    assert str(ended)
    assert "\n" not in str(ended)


def test_a_body_that_is_too_large_is_not_waited_for():
    made = arrivals(most=5)
    assert list(outcomes(made, request(b"12345"))) == [("POST", "/filter", b"12345")]
    assert list(outcomes(made, request(b"123456")[:-6])) == [("POST", "/filter", 413)]
    assert list(outcomes(arrivals(most=5), chunked(b"123", b"456", end=b""))) == [("POST", "/filter", 413)]


def test_what_has_begun_can_be_given_up():
    made = arrivals()
    assert made.cut_off() is None
    assert made.feed(request(b"12345")[:-2]) is None
    assert outcome(made.cut_off()) == ("POST", "/filter", 400)
    made = arrivals()
    made.feed(b"POST ")
    assert made.late().status == 408
    made.feed(request(b"12345")[5:-2])
    ended = made.late()
    assert (outcome(ended)[2], str(ended.body)) == (408, "the body did not come in time, only 3 of 5 bytes")
    assert ended.request.should_close()
    with pytest.raises(TransferError, match="did not come in time"):
        ended.opened().body.read(10)


def test_a_client_is_told_once_to_go_on():
    made = arrivals()
    made.feed(request(b"12", b"Expect: 100-continue")[:-2])
    assert [made.asked_to_continue(), made.asked_to_continue()] == [True, False]
    ended = made.feed(b"12")
    assert not ended.request._expected_100_continue


# -- chunks --------------------------------------------------------------------------------------------------------

lines = st.sampled_from(
    [b"1\r\na", b"\r\n", b"0\r\n", b"5\r\nhello", b"5;a=b\r\nhello", b"A: b\r\n", b"x", b"\n", b"\r", b"-1\r\n",
     b"5 \r\n", b" 1\r\na", b"g\r\n", b"00003\r\nabc", b"3\r\nabcd", b"0x1\r\n", b"1_0\r\n", b"+1\r\na"]
)  # fmt: skip
streams = st.lists(lines, max_size=8).map(b"".join) | st.lists(st.binary(min_size=1, max_size=9), max_size=4).map(
    lambda pieces: chunked(*pieces).partition(b"\r\n\r\n")[2]
)


def gunicorns(data):
    """Return what gunicorn makes of chunks: the body and what lies behind it, None for a refusal."""
    head = arrivals()
    head.feed(chunked(end=b""))
    unreader = IterUnreader((data,))
    reader = ChunkedReader(head._present[0], unreader)
    try:
        body = Body(reader).read()
    except (ParseException, NoMoreData):
        return None
    return body, unreader.take_buffered()


@given(data=streams, places=st.lists(st.integers(0, 100), max_size=6))
def test_chunks_are_read_as_gunicorn_reads_them(data, places):
    body, behind = ChunkedBody(), b""
    try:
        for piece in cut(data, places):
            behind += body.feed(piece) if not body.whole else piece
        ours = (body.value(), behind) if body.whole else None
    except TransferError:
        ours = None
    theirs = gunicorns(data)
    # Trailers are skipped here, whatever they say; gunicorn looks at them.
    assert ours == theirs or (theirs is None and ours is not None and b"0\r\n" in data)


def test_byte_by_byte_a_body_does_not_cost_an_object_a_byte():
    body = SizedBody(100_000)
    for _ in range(100_000):
        body.feed(b"x")
    assert body.value() == b"x" * 100_000
    assert len(body._pieces._pieces) < 20


# -- answers and room ----------------------------------------------------------------------------------------------


class Narrow(Channel):
    """A channel that takes a few bytes at a time."""

    def __init__(self, room):
        self.room = room
        self.taken = []

    def write(self, data):
        taken = bytes(data[: self.room])
        self.room -= len(taken)
        if taken:
            self.taken.append(taken)
        return len(taken)


def test_a_head_leaves_with_its_body():
    channel = Narrow(1000)
    outlet = Outlet(channel)
    outlet.sendall(b"head ")
    outlet.sendall(b"body")
    outlet.flush()
    alone = Outlet(channel)
    alone.sendall(b"head alone")
    alone.flush()
    assert channel.taken == [b"head body", b"head alone"]


def test_what_is_not_taken_at_once_is_owed_in_order():
    channel = Narrow(7)
    outlet = Outlet(channel)
    for piece in (b"head ", b"x" * 100_000, b"y" * 10):
        outlet.sendall(piece)
    assert (outlet.size, outlet.sent) == (5 + 100_000 + 10, 7)
    while not outlet.push():
        channel.room = 30_000
    assert b"".join(channel.taken) == b"head " + b"x" * 100_000 + b"y" * 10
    assert outlet.sent == outlet.size


def test_a_failure_is_answered_unless_an_answer_has_begun():
    for pieces, expected in (((), b"HTTP/1.1 500"), ((b"head",), b"HTTP/1.1 500"), ((b"head ", b"body"), b"head body")):
        channel = Narrow(1000)
        outlet = Outlet(channel)
        for piece in pieces:
            outlet.sendall(piece)
        outlet.fail()
        assert b"".join(channel.taken).startswith(expected)


def connection(phase, since=0.0, count=0):
    made = Connection(Narrow(0), arrivals(), Outlet(Narrow(0)), CLIENT, CLIENT, phase=phase, since=since)
    made.arrivals.count = count
    return made


def test_those_that_have_asked_nothing_go_first_and_the_oldest_of_them():
    order = [
        connection(Phase.IDLE, 1), connection(Phase.HEAD, 2, 5), connection(Phase.HANDSHAKE, 3),
        connection(Phase.IDLE, 0, 1), connection(Phase.IDLE, 4, 9), connection(Phase.OWED, 0, 1),
        connection(Phase.BODY, 1),
    ]  # fmt: skip
    backwards = order[::-1]
    assert sorted(backwards, key=worth) == order


def test_memory_runs_short_for_large_bodies_alone():
    freed = []
    memory = Memory(2**20, lambda: freed.append(1))
    large = [connection(Phase.BODY) for _ in range(5)]
    small = connection(Phase.BODY)
    for each in large:
        memory.weigh(each, 2**20)
    memory.weigh(small, 2**18)
    assert [memory.short(each) for each in (*large, small)] == [False] * 6
    memory.weigh(large[0], 3 * 2**20)
    assert [memory.short(each) for each in (*large, small)] == [True] * 5 + [False]
    for each in large:
        memory.weigh(each, 0)
    assert not memory.short(large[0])
    assert freed == []
    memory.weigh(small, 2**23)
    memory.weigh(small, 2**24)
    memory.weigh(small, 0)
    assert freed == [1]
