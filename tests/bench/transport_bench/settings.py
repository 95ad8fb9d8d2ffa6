"""What the settings of gRPC's core give: the floor with one of them changed at a time, in turns."""

import statistics

from common.turns import turns
from transport_bench import links, loopback
from transport_bench.stage import BARE_ARGUMENTS, BARE_QUEUES, Stage
from transport_bench.tables import number

MIB = 1 << 20
ROUNDS, LONG_ROUNDS = 9, 3
LARGE_BYTES, LONG_BYTES = 100 * MIB, 24 * MIB
ECHO_CALLS, CONCURRENT_CALLS = 1000, 4800
ECHO_BYTES = 108, 112  # about those of a small job's request and reply

# What is changed in BARE_ARGUMENTS: {what: (arguments, queues of the server, bytes of a message)}.
VARIANTS = {
    "as the benchmark has it": ((), BARE_QUEUES, MIB),
    "estimate of the window (bdp_probe) on": (("grpc.http2.bdp_probe=1",), BARE_QUEUES, MIB),
    "window (lookahead_bytes) 64 KiB": (("grpc.http2.lookahead_bytes=65536",), BARE_QUEUES, MIB),
    "frames of 1 MiB": (("grpc.http2.max_frame_size=1048576",), BARE_QUEUES, MIB),
    "write buffer of 4 MiB": (("grpc.http2.write_buffer_size=4194304",), BARE_QUEUES, MIB),
    "optimisation target: throughput": (("grpc.optimization_target=throughput",), BARE_QUEUES, MIB),
    "optimisation target: latency": (("grpc.optimization_target=latency",), BARE_QUEUES, MIB),
    "read chunks of 1 MiB": (("grpc.experimental.tcp_read_chunk_size=1048576",
                              "grpc.experimental.tcp_max_read_chunk_size=4194304"), BARE_QUEUES, MIB),
    "two queues with a thread each": ((), 2, MIB),
    "four queues with a thread each": ((), 4, MIB),
    "messages of 256 KiB": ((), BARE_QUEUES, MIB // 4),
    "messages of 512 KiB": ((), BARE_QUEUES, MIB // 2),
    "messages of 2 MiB": ((), BARE_QUEUES, 2 * MIB),
    "messages of 4 MiB": ((), BARE_QUEUES, 4 * MIB - 64),
}


def _arguments(changed):
    keys = {argument.partition("=")[0] for argument in changed}
    return (*(argument for argument in BARE_ARGUMENTS if argument.partition("=")[0] not in keys), *changed)


def _echo(floor, figure, calls, slots):
    return floor.ask("echo", calls, 1, slots, *ECHO_BYTES, 0)[figure]


def _figures(link, size):
    """{column: function of a floor and the bytes of a message}."""
    columns = {f"{way}, GB/s": lambda floor, message, way=way: loopback.floor_rate(floor, way, size, message)
               for way in ("download", "upload")}
    if not link.is_long:
        columns["echo p50, us"] = lambda floor, _message: _echo(floor, "p50_us", ECHO_CALLS, 1)
        columns["echoes/s at 32"] = lambda floor, _message: _echo(floor, "per_second", CONCURRENT_CALLS,
                                                                  loopback.CONCURRENCY)
    return columns


def _measure(link, size, rounds, variants):
    """{variant: {column: median}} over that link."""
    columns = _figures(link, size)
    found = {name: {column: [] for column in columns} for name in variants}
    with Stage(link) as stage:
        floors = {name: stage.bare_with(_arguments(changed), queues)
                  for name, (changed, queues, _) in variants.items()}
        for column, figure in columns.items():
            for name, floor in floors.items():
                figure(floor, variants[name][2])  # connects, touches memory
            for names in turns(variants, rounds):
                for name in names:
                    found[name][column].append(figure(floors[name], variants[name][2]))
    return {name: {f"{link.name}: {column}": statistics.median(values) for column, values in figures.items()}
            for name, figures in found.items()}


def measure(variants=None, rounds=ROUNDS, long_rounds=LONG_ROUNDS, size=LARGE_BYTES, long_size=LONG_BYTES):
    """{variant: {column: median}}."""
    variants = variants or VARIANTS
    near = _measure(links.Loopback(), size, rounds, variants)
    far = _measure(links.Delayed(links.Loopback()), long_size, long_rounds, variants)
    return {name: {**near[name], **far[name]} for name in variants}


def lines(found):
    """A Markdown table; each figure with its ratio to the first line's."""
    first = next(iter(found.values()))
    table = [f"| | {' | '.join(first)} |", f"|---|{'---|' * len(first)}"]
    for name, figures in found.items():
        cells = (f"{number(value)} ({value / first[column]:.2f})" for column, value in figures.items())
        table.append(f"| {name} | {' | '.join(cells)} |")
    return table
