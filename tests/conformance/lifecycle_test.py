"""Listeners, drain, health, what the server says of itself."""

import os
import resource
import signal
import socket
import subprocess

import grpc
import pytest

import messages
import raw_http2
from calls import CallFailed
from expect import refused
from jobs import Backward
from messages import begin, execute
from server_process import BINARY
from wire import Message

JOB = Backward.make()
SERVING, NOT_SERVING = 1, 2


# ---- Listeners


def test_every_listener_serves(start_server, connect, tmp_path):
    path = tmp_path / "aclnn.sock"
    server = start_server(listen=("127.0.0.1:0", f"unix:{path}", "127.0.0.1:0"))
    assert len(set(server.addresses)) == 3
    for address in server.addresses:
        JOB.run(connect(address))


def test_free_port_is_printed(start_server):
    host, port = start_server().address.rsplit(":", 1)
    assert host == "127.0.0.1" and 0 < int(port) < 65536


def test_address_in_use_is_a_clear_error(start_server):
    taken = start_server().address
    result = subprocess.run([BINARY, "--listen", taken], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True, timeout=60, check=False)
    assert result.returncode not in (0, -signal.SIGSEGV, -signal.SIGABRT)
    assert taken in result.stdout


@pytest.mark.parametrize("flags", [["--no-such-flag"], ["--listen"], ["--listen", "nonsense"],
                                   ["--memory-limit", "lots"], ["--memory-limit", "-1"],
                                   ["--handle-key-file", "no/such/file"]])
def test_wrong_flag_is_a_clear_error(flags):
    command = [BINARY, *flags] + ([] if flags[0] == "--listen" else ["--listen", "127.0.0.1:0"])
    result = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            text=True, timeout=60, check=False)
    assert result.returncode > 0
    assert flags[0] in result.stdout or flags[-1] in result.stdout


def test_memory_limit_above_the_machines_memory_is_warned_of(start_server):
    there = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    log = start_server("--memory-limit", f"{2 * there}B").log()
    assert '"level":"warning"' in log and f'"memory_limit_bytes":{2 * there}' in log
    assert "more than this process may use" in log
    assert "warning" not in start_server().log()


def test_folder_for_capsules_that_was_made_is_told(start_server, tmp_path):
    folder = tmp_path / "capsules"
    assert f'"directory":"{folder}"' in start_server("--capsule-dir", str(folder)).log()
    assert folder.stat().st_mode & 0o777 == 0o700
    assert "directory" not in start_server("--capsule-dir", str(folder)).log()


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_server_without_standard_descriptors_serves_and_ends_with_zero(connect, tmp_path, closed):
    """None of its sockets becomes the descriptor that lines are printed to."""
    path = tmp_path / "server.sock"
    with subprocess.Popen(["/bin/sh", "-c", f'exec "$0" --listen "unix:{path}" --drain-grace 0ms {closed}', BINARY],
                          stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            client = connect(f"unix:{path}")
            grpc.channel_ready_future(client.channel).result(60)
            JOB.run(client)
            server.terminate()
            assert server.wait(60) == 0
        finally:
            server.kill()


@pytest.mark.parametrize("descriptors", [40, 129])
def test_too_few_descriptors_are_a_clear_error(descriptors):
    """Better than a server that refuses everybody."""
    result = subprocess.run([BINARY, "--listen", "127.0.0.1:0"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True, timeout=60, check=False,
                            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors,) * 2))
    assert result.returncode == 2
    assert f"is {descriptors}, at least 130 are needed" in result.stdout


def test_socket_file_is_gone_after_the_end(start_server, tmp_path):
    path = tmp_path / "aclnn.sock"
    server = start_server(listen=(f"unix:{path}",))
    assert path.is_socket()
    server.stop()
    assert not path.exists()


@pytest.mark.parametrize("umask, mode", [("022", 0o755), ("007", 0o770)])
def test_socket_file_has_the_mode_that_the_umask_leaves(start_server, tmp_path, umask, mode):
    path = tmp_path / "aclnn.sock"
    start_server(listen=(f"unix:{path}",), prefix=("sh", "-c", f'umask {umask}; exec "$@"', "sh"))
    assert path.stat().st_mode & 0o777 == mode


def test_stale_socket_file_is_replaced(start_server, connect, tmp_path):
    path = tmp_path / "aclnn.sock"
    stale = socket.socket(socket.AF_UNIX)
    stale.bind(str(path))
    stale.close()
    JOB.run(connect(start_server(listen=(f"unix:{path}",)).address))


# ---- End


def wait_for_drain(client):
    """Returns once the server no longer calls itself serving."""
    try:
        while client.health() == SERVING:
            pass
    except CallFailed as error:
        assert error.failure.code == grpc.StatusCode.UNAVAILABLE


def test_idle_server_ends_with_zero(start_server):
    server = start_server()
    server.terminate()
    assert server.wait() == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_job_under_way_is_finished_before_the_end(start_server, connect, number):
    server = start_server("--drain-grace", "500ms", "--drain-time", "60s")
    client = connect(server)
    stream = client.stream().send(execute(begin(request=JOB.request())))
    stream.read_accepted()
    os.kill(server.pid, number)
    wait_for_drain(client)
    for item in JOB.chunks():
        stream.send(execute(None, [item]))
    JOB.check(stream.finish()[0])
    assert server.wait() == 0


def test_new_work_is_refused_while_draining(start_server, connect):
    server = start_server("--drain-grace", "60s")
    client = connect(server)
    stream = client.stream().send(execute(begin(request=JOB.request())))
    stream.read_accepted()
    server.terminate()
    wait_for_drain(client)
    refused(client.plan_failure(JOB.request()), "DRAINING")
    refused(client.execute_failure(JOB.message())[0], "DRAINING")
    stream.send(execute(None, JOB.chunks()))
    stream.send(JOB.message())
    failure = stream.fail()
    refused(failure, "DRAINING")
    JOB.check(stream.results[0])
    assert failure.metadata["job"] == "1"
    server.kill()


def test_stalled_job_does_not_hold_the_end_up(start_server, connect):
    server = start_server("--drain-time", "500ms")
    client = connect(server)
    stream = client.stream().send(execute(begin(request=JOB.request())))
    stream.read_accepted()
    server.terminate()
    assert stream.fail().code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)
    assert server.wait() == 0


def test_open_idle_streams_do_not_hold_the_end_up(start_server, connect):
    server = start_server()
    clients = [connect(server, options=[("grpc.use_local_subchannel_pool", 1)]) for _ in range(5)]
    streams = [client.stream().send(JOB.message()) for client in clients]
    for stream in streams:
        JOB.check(stream.read_result())
    server.terminate()
    assert server.wait() == 0


@pytest.mark.parametrize("spoken", [b"", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + b"\x04" + bytes(5)],
                         ids=["nothing", "the preface"])
def test_silent_connection_does_not_hold_the_end_up(start_server, spoken):
    """Told to go away, it doesn't answer. gRPC's own patience ends after 20 s, the drain time before."""
    server = start_server("--drain-time", "15s")
    host, port = server.address.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=60) as silent:
        silent.sendall(spoken)
        assert silent.recv(1)
        server.terminate()
        assert server.wait() == 0
    assert "cancelling the calls" not in server.log()


def test_peer_that_reads_nothing_does_not_hold_the_end_up(start_server):
    """It opens its windows wide and leaves the reply in the socket: the server's write never ends."""
    server = start_server("--drain-time", "500ms", "--memory-limit", "512MiB")
    host, port = server.address.rsplit(":", 1)
    job = Backward.make(planes=(1, 24), input_size=(1000, 1000), output_size=(1, 1))
    with socket.create_connection((host, int(port)), timeout=60) as deaf:
        deaf.sendall(raw_http2.connection(window=2**31 - 1) + raw_http2.execute(job.message()))
        with deaf.makefile("rb", buffering=0) as stream:
            received = 0
            while received < 1 << 20:  # the reply has begun
                piece = stream.read(65536)
                assert piece
                received += len(piece)
        server.terminate()
        assert server.wait() == 0


def test_second_signal_does_not_break_the_end(start_server):
    server = start_server()
    for _ in range(3):
        server.terminate()
    assert server.wait() in (0, -signal.SIGTERM)


# ---- Health and what gRPC answers by itself


@pytest.mark.parametrize("service", ["", "aclnn.v1.OperatorService"])
def test_health_says_serving(client, service):
    assert client.health(service) == SERVING


def test_health_of_an_unknown_service_is_not_found(client):
    with pytest.raises(CallFailed) as error:
        client.health("no.such.Service")
    assert error.value.failure.code == grpc.StatusCode.NOT_FOUND


def test_health_is_not_serving_while_draining(start_server, connect):
    server = start_server("--drain-grace", "60s")
    client = connect(server)
    stream = client.stream().send(execute(begin(request=JOB.request())))
    stream.read_accepted()
    server.terminate()
    wait_for_drain(client)
    assert client.health() == NOT_SERVING
    stream.cancel()
    server.kill()


@pytest.mark.parametrize("method, service", [("NoSuchMethod", "/aclnn.v1.OperatorService/"),
                                             ("Execute", "/no.such.Service/"), ("", "/")])
def test_unknown_method_is_unimplemented(client, method, service):
    failure = client.unary_failure(method, b"", service=service)
    assert failure.code == grpc.StatusCode.UNIMPLEMENTED and failure.details_bytes == 0


def test_too_much_metadata_is_refused_by_grpc(server, client, connect):
    """On a connection of its own: gRPC may close it."""
    call = connect(server, options=[("grpc.use_local_subchannel_pool", 1)]).channel.unary_unary("/aclnn.v1.OperatorService/GetServerInfo")
    with pytest.raises(grpc.RpcError) as error:
        call(b"", timeout=60, metadata=[(f"key{number}", "x" * 1000) for number in range(70)])
    assert error.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "grpc-status-details-bin" not in dict(error.value.trailing_metadata() or ())
    JOB.run(client)


def test_execute_called_as_unary_is_answered(client):
    with pytest.raises(CallFailed) as error:
        client.unary("Execute", b"")
    assert error.value.failure.reason == "SEQUENCE_INVALID"


def test_what_is_no_http2_does_no_harm(server, client):
    host, port = server.address.rsplit(":", 1)
    for data in (b"GET / HTTP/1.1\r\n\r\n", b"\x00" * 1000, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\xff" * 1000, b""):
        with socket.create_connection((host, int(port)), timeout=30) as raw:
            raw.sendall(data)
            raw.shutdown(socket.SHUT_WR)
    JOB.run(client)


# ---- What the server says of itself


def test_server_info(client):
    info = Message(client.unary("GetServerInfo", b""))
    assert info.text(1) and info.integer(2) >= 1 and info.text(7)
    limits = info.message(4)
    assert limits.integer(1) >= messages.CHUNK_BYTES_DEFAULT
    assert limits.integer(2) == messages.MESSAGE_BYTES_MAX
    assert all(limits.integer(number) > 0 for number in range(1, 11))
    assert set(info.integers(5)) >= {messages.NONE, messages.LZ4_BLOCK}
    targets = {target.integer(1): target for target in info.messages(6)}
    assert targets[messages.CPU].integer(2) == 1
    assert messages.EXACT in targets[messages.CPU].integers(4)


def test_operator_list(client):
    listed = {item.text(1): item for item in Message(client.unary("ListOperators", b"")).messages(1)}
    assert {messages.BACKWARD, messages.FORWARD} <= set(listed)
    backward = {item.text(1): item for item in listed[messages.BACKWARD].messages(2)}
    assert list(backward) == ["gradOutput", "self", "indices", "gradInput"]
    assert [item.integer(5) for item in backward.values()] == [0, 1, 0, 0]
    assert [item.integer(3) for item in backward.values()] == [1, 1, 1, 2]
    assert set(backward["indices"].integers(6)) == {messages.INT32, messages.INT64}
    assert set(backward["self"].integers(6)) == {messages.FLOAT, messages.FLOAT16, messages.BF16}
    assert set(backward["self"].integers(7)) == {3, 4}
    assert listed[messages.BACKWARD].integer(3) == 1
    forward = [item.text(1) for item in listed[messages.FORWARD].messages(2)]
    assert forward == ["self", "outputSize", "outputOut", "indicesOut"]
