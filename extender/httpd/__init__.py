"""Requests over connections, for a gunicorn whose threads never wait for a client.

A connection waits in one poller, whatever it waits for: a TLS handshake, a head, a body, room for its answer. A thread
gets a request once all of it is there, and leaves what the client does not take at once to the poller again. So clients
that stall, any number of them, cost file descriptors, and no verb waits for them.

    heads        where the head of a request ends, and what gunicorn makes of it; pure
    bodies       bodies, of a stated length or in chunks; pure
    channel      a socket, plain or TLS, that never blocks
    arrivals     what one client sends, cut into requests; pure
    connection   one client: phase, deadline, what it is still owed
    rules        how long clients may take, how much may be held for them, who goes when there are too many
    malloc       what the C library does with the memory of big bodies
    reception    all connections, each in its phase and with its deadline
    worker       gunicorn's worker: accepts, runs the application in threads, stops
"""
