"""Everybody who takes part, on both sides of one link, started when first asked for."""

import contextlib
import functools
import pathlib
import subprocess
import tempfile

from server_process import ServerProcess

from transport_bench import programs

ROOT = pathlib.Path(__file__).resolve().parents[3]

# What gave the floor most, on both of its sides. One thread is faster than two: its next event is there already.
BARE_QUEUES = 1
# Where the way is short, an estimate of the window makes it grow beyond what caches hold (0.2 to 0.9 GB/s against 1.2
# to 1.8). Frame size, write buffer, read chunks and optimisation target made no difference beyond that of two runs.
BARE_ARGUMENTS = ("grpc.http2.bdp_probe=0", "grpc.http2.lookahead_bytes=8388608")
# Where it is long, only the estimate opens the connection's window: without it a stream gets 1 MiB and 64 KiB in a
# round trip, whatever lookahead_bytes says (45 MB/s over 20 ms against 320).
BARE_ARGUMENTS_LONG = ()
# glibc keeps its memory, as warm as everybody else's: without this the service takes seconds for 100 MB where fresh
# pages are slow.
SERVICE_ENVIRONMENT = {
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_THRESHOLD_": "1000000000",
    "MALLOC_TRIM_THRESHOLD_": "4000000000",
}


def start_server(link, *flags):
    """A server of ours on its side of the link; a context manager."""
    if link.is_long:
        flags = (*flags, "--far-round-trip", "0ms")  # the proxy that makes it long hides that from TCP
    return ServerProcess(*flags, listen=(link.listen(),), prefix=(*programs.FAITHFUL, *link.server_prefix))


class Stage:
    """A context manager; leaving it ends everything that was started."""

    def __init__(self, link):
        self.link = link
        self._stack = contextlib.ExitStack()

    def __enter__(self):
        self._stack.enter_context(self.link)
        return self

    def __exit__(self, *exception):
        return self._stack.__exit__(*exception)

    def _start(self, *words, **options):
        return self._stack.enter_context(programs.Program(*words, **options))

    def _serve(self, *words, environment=None):
        """The address at which clients find a server that is started with these words."""
        server = self._start(*words, prefix=self.link.server_prefix, serves=True, environment=environment)
        return self.link.route(server.address, self._stack)

    def _call(self, *words):
        return self._start(*words, prefix=self.link.client_prefix)

    @functools.cached_property
    def _ours_address(self):
        server = self._stack.enter_context(start_server(self.link))
        return self.link.route(server.address, self._stack)

    @functools.cached_property
    def _service_address(self):
        """The Python service's."""
        folder = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="aclnn-bench-"))
        subprocess.run(["protoc", f"--python_out={folder}", "-I", ROOT / "proto", "aclnn/v1/operator_service.proto"],
                       check=True)
        return self._serve(*programs.script("python_service.py"), self.link.listen(), folder,
                           environment=SERVICE_ENVIRONMENT)

    @functools.cached_property
    def ours(self):
        """The C client of our server."""
        return self._call(programs.binary("client_bench"), self._ours_address)

    @functools.cached_property
    def ours_python(self):
        """The Python client of our server."""
        return self._call(*programs.script("python_client.py"), self._ours_address)

    @functools.cached_property
    def service(self):
        """The C client of the Python service."""
        return self._call(programs.binary("client_bench"), self._service_address)

    @functools.cached_property
    def service_python(self):
        """The Python client of the Python service."""
        return self._call(*programs.script("python_client.py"), self._service_address)

    @functools.cached_property
    def bare(self):
        """The floor."""
        return self.bare_with(BARE_ARGUMENTS_LONG if self.link.is_long else BARE_ARGUMENTS)

    def bare_with(self, arguments, queues=BARE_QUEUES):
        """A floor with these channel arguments on both sides, and its server with so many queues."""
        address = self._serve(programs.binary("bare_server"), self.link.listen(), queues, *arguments)
        return self._call(programs.binary("bare_client"), address, *arguments)

    @functools.cached_property
    def tcp(self):
        """The physical limit."""
        address = self._serve(programs.binary("tcp_server"), self.link.listen())
        return self._call(programs.binary("tcp_client"), address)
