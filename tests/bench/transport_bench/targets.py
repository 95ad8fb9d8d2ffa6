"""What the transport is to reach, and what it reached. Knows nothing of who measured."""

from common.goals import Target
from common.ratios import ratio
from transport_bench import links, loopback, memory, slow_links
from transport_bench.loopback import OURS, OURS_PLAIN

LOOPBACK = links.Loopback.name
GIGABIT = links.Gigabit.name
DELAY = f", {links.ROUND_TRIP_MS} ms"
EITHER = (OURS, OURS_PLAIN)
PYTHON = "python service"


class _Rows:
    """Rows by link and name; those that weren't measured are None."""

    def __init__(self, rows):
        self._rows = {(row.link, row.name): row for row in rows}

    def find(self, link, name):
        return self._rows.get((link, name))


def _quotient(row, target, ours, peers, inverse=False):
    """Ours over the best of the peers, or the inverse: the median of the rounds' quotients."""
    own, peer = (None, None) if row is None else (row.best(ours), row.best(peers))
    if own is not None and peer is not None:
        pair = (row.rounds[peer], row.rounds[own]) if inverse else (row.rounds[own], row.rounds[peer])
        found = ratio(*pair)
        target.value = found.median
        target.where = f"{own} {row.median(own):.4g}, {peer} {row.median(peer):.4g} {row.unit}"
    return target


def _streams(rows):
    download = rows.find(LOOPBACK, loopback.DOWNLOAD)
    upload = rows.find(LOOPBACK, loopback.UPLOAD)
    pooled = rows.find(LOOPBACK, loopback.POOLED)
    yield _quotient(download, Target("download of 103 MB, incompressible, times bare", 0.9, 1.0), (OURS,), ("bare",))
    yield _quotient(upload, Target("upload of 103 MB, times bare", 0.9, 1.0), (OURS,), ("bare",))
    yield _quotient(pooled, Target("the same as pooling makes it, best codec, times bare", 1.5, 3.0), EITHER, ("bare",))
    yield _quotient(download, Target("download with codecs allowed, incompressible, times never encoded", 0.95, None),
                    (OURS,), (OURS_PLAIN,))
    yield _quotient(upload, Target("upload with codecs allowed, incompressible, times never encoded", 0.95, None),
                    (OURS,), (OURS_PLAIN,))


def _small(rows):
    single = rows.find(LOOPBACK, loopback.SMALL)
    concurrent = rows.find(LOOPBACK, loopback.CONCURRENT)
    pipelined = rows.find(LOOPBACK, loopback.PIPELINED)
    bare = ("bare", loopback.BARE_SPLIT, loopback.BARE_THREADS)
    yield _quotient(single, Target("small job p50, one call each, over bare echo", 1.35, 1.15, at_most=True),
                    (OURS,), bare)
    yield _quotient(concurrent, Target("small jobs/s, concurrency 32, times bare", 0.75, 0.9), (OURS,), bare)
    yield _quotient(pipelined, Target("small jobs/s pipelined, times one call each", 5, 10), (OURS,),
                    (loopback.ALONE,))
    yield _quotient(concurrent, Target("small jobs/s, concurrency 32, times the Python service", 3, 5), (OURS,),
                    (PYTHON,))
    yield _quotient(pipelined, Target("small jobs/s pipelined, times the Python service", 5, 10), (OURS,), (PYTHON,))


def _whole(rows):
    return _quotient(rows.find(LOOPBACK, loopback.WHOLE),
                     Target("whole backward from Python, Python service's time over ours", 5, 10),
                     ("ours, Python client",), ("python service, Python client",), inverse=True)


def _spread(rows):
    target = Target("spread of a throughput over bare's, worst", 1.2, 1.0, at_most=True)
    for name in (loopback.DOWNLOAD, loopback.UPLOAD, loopback.CONCURRENT):
        row = rows.find(LOOPBACK, name)
        if row is not None:
            value = row.spread(OURS) / row.spread("bare")
            if target.value is None or value > target.value:
                target.value = value
                target.where = f"{name}: ours {row.spread('ours'):.2f}, bare {row.spread('bare'):.2f}"
    return target


def _memory(rows):
    target = Target("peak memory of the server less 64 MiB, over the tensors", 1.1, None, at_most=True)
    row = rows.find(LOOPBACK, memory.NAME)
    if row is not None:
        peak, tensors = row.median(memory.OURS), row.median(memory.TENSORS)
        target.value = (peak - memory.ALLOWANCE_BYTES / 1e6) / tensors
        target.where = f"peak {peak:.0f} MB, tensors {tensors:.0f} MB"
    return target


def _gigabit(rows):
    whole = rows.find(GIGABIT, slow_links.WHOLE)
    finer = rows.find(GIGABIT, slow_links.FINER)
    milliseconds = Target("1 Gbit/s: whole backward 112x112 -> 7x7, ms", 60, 30, at_most=True)
    if whole is not None:
        own = whole.best(EITHER)
        milliseconds.value, milliseconds.where = whole.median(own), own
    yield milliseconds
    yield _quotient(whole, Target("1 Gbit/s: the same, bare streaming's time over ours", 12, None), EITHER, ("bare",),
                    inverse=True)
    yield _quotient(finer, Target("1 Gbit/s: 14x14 -> 7x7, bare streaming's time over ours", 2, 3), EITHER, ("bare",),
                    inverse=True)


def _delayed(rows):
    yield _quotient(rows.find(LOOPBACK + DELAY, slow_links.ONE_SHOT),
                    Target("20 ms: one-shot small job, round trips", 1.2, 1.05, at_most=True), (OURS,),
                    (slow_links.ROUND_TRIP,))
    for name, what in ((slow_links.DOWNLOAD, "download"), (slow_links.UPLOAD, "upload")):
        yield _quotient(rows.find(GIGABIT + DELAY, name),
                        Target(f"1 Gbit/s with 20 ms: {what} of 103 MB, times plain TCP", 0.9, 0.97), (OURS_PLAIN,),
                        ("tcp",))


def all_targets(measured, no_gigabit=""):
    """Every target with its value; no_gigabit: why the link of 1 Gbit/s isn't there."""
    rows = _Rows(measured)
    found = [*_streams(rows), *_small(rows), _whole(rows), _spread(rows), _memory(rows), *_gigabit(rows),
             *_delayed(rows)]
    for target in found:
        if target.value is None and "1 Gbit/s" in target.name:
            target.doubt = no_gigabit
    return found
