"""The harness itself: a server that crashes, leaks or does not end may never pass unseen."""

import pytest

import server_process
from server_process import ServerProcess


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """Puts a shell script in the place of the server; its argument is what it does on SIGTERM."""

    def make(on_end, at_start="echo listening on 127.0.0.1:1"):
        path = tmp_path / "server"
        path.write_text(f"#!/bin/bash\ntrap '{on_end}' TERM\n{at_start}\nwhile true; do sleep 0.01; done\n")
        path.chmod(0o755)
        monkeypatch.setattr(server_process, "BINARY", str(path))
        return ServerProcess()

    return make


def test_clean_end_passes(fake):
    server = fake("exit 0")
    server.start()
    assert server.address == "127.0.0.1:1"
    server.stop()


@pytest.mark.parametrize("on_end", ["exit 1", "kill -SEGV $$", "exit 66"])
def test_bad_end_is_found(fake, on_end):
    server = fake(on_end)
    server.start()
    with pytest.raises(AssertionError, match="ended with"):
        server.stop()


@pytest.mark.parametrize("report", ["WARNING: ThreadSanitizer: data race (pid=1)", "x.c:3:5: runtime error: shift",
                                    "==1==ERROR: AddressSanitizer: heap-use-after-free",
                                    "==1==ERROR: LeakSanitizer: detected memory leaks"])
def test_sanitizer_report_is_found_though_the_end_is_clean(fake, report):
    server = fake(f"echo \"{report}\" >&2; exit 0")
    server.start()
    with pytest.raises(AssertionError, match="sanitizer report"):
        server.stop()


def test_server_that_ended_by_itself_is_found(fake):
    server = fake("exit 0", "echo listening on 127.0.0.1:1; exit 0")
    server.start()
    server.process.wait()
    with pytest.raises(AssertionError, match="ended by itself"):
        server.stop()


def test_server_that_does_not_start_is_found(fake):
    server = fake("exit 0", "echo out of luck >&2; exit 3")
    with pytest.raises(AssertionError, match="out of luck"):
        server.start()


def test_server_that_does_not_end_is_found(fake, monkeypatch):
    server = fake("true")
    server.start()
    with pytest.raises(AssertionError, match="did not end"):
        server.wait(0.2)
