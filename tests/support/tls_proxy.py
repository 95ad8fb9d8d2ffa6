"""A proxy that knows TLS, as HAProxy does: it takes connections and hands what they say to a unix socket."""

import asyncio
import contextlib
import ssl
import subprocess
import threading

PIECE_BYTES = 1 << 16


def make_certificate(folder):
    """One for 127.0.0.1 that signs itself: the files of the certificate and of its key."""
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate],
        check=True, stderr=subprocess.DEVNULL)
    return certificate, key


class TlsProxy:
    """A context manager with a thread of its own; `address` is where it listens."""

    def __init__(self, unix_path, certificate, key):
        self._unix_path = unix_path
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificate, key)
        self._context.set_alpn_protocols(["h2"])
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._server = None
        self.address = None

    def __enter__(self):
        self._thread.start()
        self._server = asyncio.run_coroutine_threadsafe(
            asyncio.start_server(self._forward, "127.0.0.1", 0, ssl=self._context), self._loop).result()
        self.address = "127.0.0.1:%d" % self._server.sockets[0].getsockname()[1]
        return self

    def __exit__(self, *exception):
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _end(self):
        self._server.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _forward(self, client_reader, client_writer):
        server_reader, server_writer = await asyncio.open_unix_connection(self._unix_path)
        ways = [asyncio.ensure_future(self._carry(client_reader, server_writer)),
                asyncio.ensure_future(self._carry(server_reader, client_writer))]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            client_writer.close()
            server_writer.close()

    @staticmethod
    async def _carry(reader, writer):
        with contextlib.suppress(OSError):
            while data := await reader.read(PIECE_BYTES):
                writer.write(data)
                await writer.drain()
