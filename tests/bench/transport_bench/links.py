"""What lies between servers and clients: this machine's loopback, a network of 1 Gbit/s, a long way."""

import contextlib
import itertools
import os
import subprocess
import tempfile

from transport_bench import programs

GIGABIT = "1gbit"
# Segments reach the queue 64 KiB at a time; what waits in it at the most is as long as a switch would keep it.
BURST = "256kb"
QUEUE_TIME = "20ms"
SERVER_HOST, CLIENT_HOST = "192.0.2.1", "192.0.2.2"
ROUND_TRIP_MS = 20


class Unavailable(Exception):
    """This machine can't make such a link: why."""


class Loopback:
    """Nothing in between."""

    name = "loopback"
    is_long = False
    host = "127.0.0.1"
    server_prefix = ()
    client_prefix = ()

    def listen(self):
        """Where the next server is to listen."""
        return f"{self.host}:0"

    def route(self, address, _stack):
        """The address under which clients reach a server that listens at `address`."""
        return address

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        pass


class UnixSockets:
    """Nothing in between, and no TCP."""

    name = "Unix socket"
    is_long = False
    server_prefix = ()
    client_prefix = ()

    def __init__(self):
        self._folder = None
        self._numbers = itertools.count()

    def listen(self):
        return f"unix:{self._folder.name}/{next(self._numbers)}.sock"

    def route(self, address, _stack):
        return address

    def __enter__(self):
        self._folder = tempfile.TemporaryDirectory(prefix="aclnn-bench-")
        return self

    def __exit__(self, *exception):
        self._folder.cleanup()


def _run(*words):
    try:
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    except FileNotFoundError:
        raise Unavailable(f"there is no program {words[0]}") from None
    if done.returncode != 0:
        raise Unavailable(f"{' '.join(words)}: {done.stdout.strip()}")


class Gigabit:
    """Two network namespaces with a cable between them, both of whose ends send at 1 Gbit/s.

    The namespaces are removed whenever the benchmark ends, also if it is killed: a shell that waits for the end of a
    pipe does it.
    """

    name = "1 Gbit/s"
    is_long = False
    host = SERVER_HOST

    def __init__(self):
        self._server, self._client = (f"aclnn-bench-{os.getpid()}-{side}" for side in ("server", "client"))
        self.server_prefix = ("ip", "netns", "exec", self._server)
        self.client_prefix = ("ip", "netns", "exec", self._client)
        self._remover = None

    def listen(self):
        return f"{self.host}:0"

    def route(self, address, _stack):
        return address

    def __enter__(self):
        if os.geteuid() != 0:
            raise Unavailable("network namespaces take root's rights")
        remove = f"cat; ip netns del {self._server}; ip netns del {self._client}"
        self._remover = subprocess.Popen(
            ["bash", "-c", remove], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True)
        try:
            self._set_up()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _set_up(self):
        for name in (self._server, self._client):
            _run("ip", "netns", "add", name)
        _run("ip", "link", "add", "cable", "netns", self._server, "type", "veth", "peer", "name", "cable", "netns",
             self._client)
        for name, host in ((self._server, SERVER_HOST), (self._client, CLIENT_HOST)):
            _run("ip", "-n", name, "address", "add", f"{host}/30", "dev", "cable")
            _run("ip", "-n", name, "link", "set", "lo", "up")
            _run("ip", "-n", name, "link", "set", "cable", "up")
            _run("tc", "-n", name, "qdisc", "add", "dev", "cable", "root", "tbf", "rate", GIGABIT, "burst", BURST,
                 "latency", QUEUE_TIME)

    def __exit__(self, *exception):
        self._remover.stdin.close()
        self._remover.wait()


class Delayed:
    """Another link with a proxy at the clients' end that lets every byte wait."""

    is_long = True

    def __init__(self, link):
        self._link = link
        self.name = f"{link.name}, {ROUND_TRIP_MS} ms"
        self.listen = link.listen
        self.server_prefix = link.server_prefix
        self.client_prefix = link.client_prefix

    def route(self, address, stack):
        one_way = ROUND_TRIP_MS * 1000 // 2
        proxy = programs.Program(programs.binary("delay_proxy"), "127.0.0.1:0", address, one_way,
                                 prefix=self.client_prefix, serves=True)
        return stack.enter_context(contextlib.closing(proxy)).address

    def __enter__(self):
        self._link.__enter__()
        return self

    def __exit__(self, *exception):
        self._link.__exit__(*exception)
