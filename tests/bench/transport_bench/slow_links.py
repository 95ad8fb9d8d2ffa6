"""The rows over links that are slower or longer than the loopback."""

from transport_bench import links, loopback, rows
from transport_bench.loopback import ENCODED, OURS, OURS_PLAIN, PLAIN, call, large_bytes
from transport_bench.stage import Stage

WHOLE = loopback.WHOLE
FINER = "whole backward 14x14 -> 7x7 of the same size"
ONE_SHOT = "one-shot small job on a warm channel, p50"
DOWNLOAD = "download"
UPLOAD = loopback.UPLOAD

ROUND_TRIP = "tcp round trip"
ONE_SHOTS = 20  # in a round; each takes a round trip


def bare_milliseconds(stage, sent, received):
    """The same bytes as a job's, as bare streams, one after the other."""
    message = loopback.MESSAGE_BYTES
    up = stage.bare.ask("upload", sent, min(sent, message))["seconds"]
    return (up + stage.bare.ask("download", received, min(received, message))["seconds"]) * 1e3


def whole_row(stage, effort, name, shape, sent):
    return rows.Row(stage.link.name, name, "ms", True), {
        "bare": call(bare_milliseconds, stage, sent, large_bytes(effort)),
        OURS: call(loopback.whole_milliseconds, stage.ours, *shape, ENCODED),
        OURS_PLAIN: call(loopback.whole_milliseconds, stage.ours, *shape, PLAIN),
    }


def gigabit_rows(stage, effort):
    batch, channels = effort.planes
    small_cells = batch * channels * 7 * 7
    yield whole_row(stage, effort, WHOLE, (batch, channels, 112, 112, 7, 7), small_cells * 8)
    # 64 planes of 14x14 are as large as one of 112x112.
    yield whole_row(stage, effort, FINER, (batch, channels * 64, 14, 14, 7, 7), small_cells * 64 * 8)


def both_ways_rows(stage, effort):
    size = large_bytes(effort)
    pooled = (*effort.planes, 112, 112, 7, 7)
    yield rows.Row(stage.link.name, DOWNLOAD, "GB/s", False), {
        "tcp": call(loopback.tcp_rate, stage, 0, size),
        "bare": call(loopback.bare_rate, stage, "download", size),
        OURS_PLAIN: call(loopback.download_rate, stage.ours, pooled, PLAIN),
    }
    yield rows.Row(stage.link.name, UPLOAD, "GB/s", False), {
        "tcp": call(loopback.tcp_rate, stage, size, 0),
        "bare": call(loopback.bare_rate, stage, "upload", size),
        OURS_PLAIN: call(loopback.upload_rate, stage.ours, effort, PLAIN),
    }


def one_shot(client):
    return client.ask("oneshot", ONE_SHOTS)["p50_us"] / 1e3


def round_trip(stage):
    return stage.tcp.ask("exchange", ONE_SHOTS, 1, 1)["p50_us"] / 1e3


def one_shot_rows(stage, _effort):
    yield rows.Row(stage.link.name, ONE_SHOT, "ms", True), {
        ROUND_TRIP: call(round_trip, stage),
        OURS: call(one_shot, stage.ours),
    }


def _measure(link, part, effort, rounds=None):
    with Stage(link) as stage:
        for row, calls in part(stage, effort):
            yield rows.measure(row, calls, effort, rounds)


def measure_all(effort):
    """([rows], why others are missing)."""
    found = list(_measure(links.Delayed(links.Loopback()), one_shot_rows, effort))
    try:
        found += _measure(links.Gigabit(), gigabit_rows, effort)
        found += _measure(links.Delayed(links.Gigabit()), both_ways_rows, effort, effort.link_rounds)
    except links.Unavailable as error:
        return found, str(error)
    return found, ""
