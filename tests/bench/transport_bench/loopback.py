"""The rows over this machine's loopback."""

import functools

from transport_bench import links, rows
from transport_bench.stage import Stage

MESSAGE_BYTES = 1 << 20
CONCURRENCY = 32
DEPTH = 32
# The Python service takes that much longer; rates don't depend on how many calls they are taken from.
SERVICE_SHARE = 4

DOWNLOAD = "download of an incompressible gradInput"
UPLOAD = "upload"
POOLED = "download of gradInput 112x112 -> 7x7"
SMALL = "small job, one call each, p50"
CONCURRENT = f"small jobs, one call each, concurrency {CONCURRENCY}"
PIPELINED = "small jobs, pipelined on one stream"
ALONE = "small jobs, one call each, concurrency 1"
WHOLE = "whole backward 112x112 -> 7x7"

BARE_SPLIT = "bare, a batch for each step"
BARE_THREADS = f"bare, {CONCURRENCY} threads"
# Chunks may be encoded where the sender finds that quicker, which is what clients do by themselves, or never are.
OURS = "ours"
OURS_PLAIN = "ours, never encoded"
OURS_THREADS = f"ours, {CONCURRENCY} threads"
PLAIN, ENCODED = 0, 1


def large_bytes(effort, size=112):
    return effort.planes[0] * effort.planes[1] * size * size * 4


def gigabytes_per_second(size, seconds):
    return size / seconds / 1e9


def download_rate(client, shape, codec):
    """Of a whole job what comes after its run; call and begin count too."""
    found = client.ask("backward", *shape, codec)
    size = shape[0] * shape[1] * shape[2] * shape[3] * 4
    return gigabytes_per_second(
        size, found["seconds"] - found["queue_seconds"] - found["upload_seconds"] - found["compute_seconds"])


def upload_rate(client, effort, codec):
    """Of a forward job with next to no output all but the wait for memory and the run."""
    found = client.ask("forward", *effort.planes, 112, 112, 1, 1, codec)
    return gigabytes_per_second(
        large_bytes(effort), found["seconds"] - found["queue_seconds"] - found["compute_seconds"])


def floor_rate(floor, direction, size, message):
    return gigabytes_per_second(size, floor.ask(direction, size, min(size, message))["seconds"])


def bare_rate(stage, direction, size):
    return floor_rate(stage.bare, direction, size, MESSAGE_BYTES)


def tcp_rate(stage, sent, received):
    """The side that receives says when it has everything: with the bytes themselves, or one."""
    found = stage.tcp.ask("exchange", 1, sent, max(received, 1))
    return gigabytes_per_second(sent + received, found["seconds"])


def call(function, *arguments):
    return functools.partial(function, *arguments)


def stream_rows(stage, effort):
    size = large_bytes(effort)
    dense, pooled = (*effort.planes, 112, 112, 112, 112), (*effort.planes, 112, 112, 7, 7)
    bare_download = call(bare_rate, stage, "download", size)
    yield rows.Row(stage.link.name, DOWNLOAD, "GB/s", False), {
        "tcp": call(tcp_rate, stage, 0, size),
        "bare": bare_download,
        OURS: call(download_rate, stage.ours, dense, ENCODED),
        OURS_PLAIN: call(download_rate, stage.ours, dense, PLAIN),
    }
    yield rows.Row(stage.link.name, UPLOAD, "GB/s", False), {
        "tcp": call(tcp_rate, stage, size, 0),
        "bare": call(bare_rate, stage, "upload", size),
        OURS: call(upload_rate, stage.ours, effort, ENCODED),
        OURS_PLAIN: call(upload_rate, stage.ours, effort, PLAIN),
    }
    yield rows.Row(stage.link.name, POOLED, "GB/s", False), {
        "bare": bare_download,
        OURS: call(download_rate, stage.ours, pooled, ENCODED),
        OURS_PLAIN: call(download_rate, stage.ours, pooled, PLAIN),
    }


def echo(stage, figure, calls, threads, slots, split):
    sizes = stage.ours.ask("sizes")
    words = (calls, threads, slots, int(sizes["request_bytes"]), int(sizes["reply_bytes"]), split)
    return stage.bare.ask("echo", *words)[figure]


def small(client, figure, calls, threads):
    return client.ask("small", calls, threads)[figure]


def concurrent_rate(client, calls):
    """One thread with so many calls under way, as bare has them."""
    return client.ask("concurrent", calls, CONCURRENCY)["per_second"]


def pipelined(client, jobs):
    return client.ask("pipelined", jobs, DEPTH)["per_second"]


def small_rows(stage, effort):
    calls, concurrent = effort.calls, effort.concurrent_calls
    yield rows.Row(stage.link.name, SMALL, "us", True), {
        "bare": call(echo, stage, "p50_us", calls, 1, 1, 0),
        BARE_SPLIT: call(echo, stage, "p50_us", calls, 1, 1, 1),
        OURS: call(small, stage.ours, "p50_us", calls, 1),
        "python service": call(small, stage.service, "p50_us", calls // SERVICE_SHARE, 1),
    }
    yield rows.Row(stage.link.name, CONCURRENT, "1/s", False), {
        "bare": call(echo, stage, "per_second", concurrent, 1, CONCURRENCY, 0),
        BARE_THREADS: call(echo, stage, "per_second", concurrent, CONCURRENCY, 1, 0),
        OURS: call(concurrent_rate, stage.ours, concurrent),
        OURS_THREADS: call(small, stage.ours, "per_second", concurrent, CONCURRENCY),
        "python service": call(concurrent_rate, stage.service, concurrent // SERVICE_SHARE),
    }
    yield rows.Row(stage.link.name, PIPELINED, "1/s", False), {
        ALONE: call(small, stage.ours, "per_second", calls, 1),
        OURS: call(pipelined, stage.ours, effort.pipelined_jobs),
        "python service": call(pipelined, stage.service, effort.pipelined_jobs // SERVICE_SHARE),
    }


def unix_rows(stage, effort):
    size = large_bytes(effort)
    dense = (*effort.planes, 112, 112, 112, 112)
    yield rows.Row(stage.link.name, SMALL, "us", True), {
        "bare": call(echo, stage, "p50_us", effort.calls, 1, 1, 0),
        OURS: call(small, stage.ours, "p50_us", effort.calls, 1),
    }
    yield rows.Row(stage.link.name, DOWNLOAD, "GB/s", False), {
        "bare": call(bare_rate, stage, "download", size),
        OURS_PLAIN: call(download_rate, stage.ours, dense, PLAIN),
    }
    yield rows.Row(stage.link.name, UPLOAD, "GB/s", False), {
        "bare": call(bare_rate, stage, "upload", size),
        OURS_PLAIN: call(upload_rate, stage.ours, effort, PLAIN),
    }


def whole_milliseconds(client, *words):
    return client.ask("backward", *words)["seconds"] * 1e3


def whole_rows(stage, effort):
    pooled = (*effort.planes, 112, 112, 7, 7)
    yield rows.Row(stage.link.name, WHOLE, "ms", True), {
        OURS: call(whole_milliseconds, stage.ours, *pooled, ENCODED),
        OURS_PLAIN: call(whole_milliseconds, stage.ours, *pooled, PLAIN),
        "ours, Python client": call(whole_milliseconds, stage.ours_python, *pooled),
        "python service": call(whole_milliseconds, stage.service, *pooled, PLAIN),
        "python service, Python client": call(whole_milliseconds, stage.service_python, *pooled),
    }


def measure_all(effort):
    """Every row over the loopback and over Unix sockets."""
    for link, parts in ((links.Loopback(), (small_rows, stream_rows, whole_rows)), (links.UnixSockets(), (unix_rows,))):
        with Stage(link) as stage:
            for part in parts:
                for row, calls in part(stage, effort):
                    yield rows.measure(row, calls, effort, turns_in_round=effort.turns)
