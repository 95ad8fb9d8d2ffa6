"""What figures depend on besides the code."""

import os
import platform
import sys

# Above it the machine does other work.
IDLE_LOAD_AVERAGE = 0.3


def cpu_model():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        names = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
    return names[0] if names else platform.machine()


def describe():
    return {
        "cpu": cpu_model(),
        "processors": os.cpu_count(),
        "load_average": os.getloadavg()[0],
        "kernel": platform.release(),
    }


def warn_if_busy(about, what):
    if about["load_average"] > IDLE_LOAD_AVERAGE:
        print(f"other programs are running: {what}", file=sys.stderr)
