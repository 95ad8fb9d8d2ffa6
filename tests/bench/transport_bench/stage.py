"""Everybody who takes part, on both sides of one link, started when first asked for."""

import contextlib
import functools
import pathlib
import subprocess
import tempfile

from server_process import ServerProcess

from transport_bench import programs

ROOT = pathlib.Path(__file__).resolve().parents[3]

# What gave the floor most, see README: servers and clients of it have these.
BARE_ARGUMENTS = (
    "grpc.http2.bdp_probe=0",
    "grpc.http2.lookahead_bytes=8388608",
    "grpc.http2.max_frame_size=1048576",
)
BARE_QUEUES = 2


def start_server(link, *flags):
    """A server of ours on its side of the link; a context manager."""
    return ServerProcess(*flags, listen=(f"{link.host}:0",), prefix=(*programs.FAITHFUL, *link.server_prefix))


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

    def _serve(self, *words):
        """The address at which clients find a server that is started with these words."""
        server = self._start(*words, prefix=self.link.server_prefix, serves=True)
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
        return self._serve(*programs.script("python_service.py"), f"{self.link.host}:0", folder)

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
        address = self._serve(programs.binary("bare_server"), f"{self.link.host}:0", BARE_QUEUES, *BARE_ARGUMENTS)
        return self._call(programs.binary("bare_client"), address, *BARE_ARGUMENTS)

    @functools.cached_property
    def tcp(self):
        """The physical limit."""
        address = self._serve(programs.binary("tcp_server"), f"{self.link.host}:0")
        return self._call(programs.binary("tcp_client"), address)
