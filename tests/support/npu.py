"""A server with emulated NPUs, and its worker processes as the system sees them."""

import os
import pathlib
import time

from server_process import ServerProcess

WORKER = "aclnn-npu-worker"
# What takes longer hangs.
RECOVERY_SECONDS_MAX = 120


class EmulatedServer(ServerProcess):
    """A server with that many emulated devices; `emulator` is what the emulated device reads from its environment,
    without the prefix: {"PROFILE": "a2"}."""

    def __init__(self, devices, *flags, emulator=None, **more):
        environment = {f"ACLNN_EMULATED_{name}": value for name, value in (emulator or {}).items()}
        super().__init__("--npu", f"emulated:{devices}", *flags, environment=environment, **more)

    def workers(self):
        """The process ids of the workers that are alive."""
        return [pid for pid in children_of(self.pid) if is_worker(pid)]


def children_of(pid):
    """The ids of the processes that this one has started, zombies too."""
    children = []
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        try:
            children += [int(word) for word in (task / "children").read_text(encoding="ascii").split()]
        except FileNotFoundError:  # the thread has ended
            pass
    return children


def state_of(pid):
    """The letter of the process's state, None if it is gone."""
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    return stat.rpartition(")")[2].split()[0]


def is_worker(pid):
    try:
        command = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except (FileNotFoundError, ProcessLookupError):
        return False
    return os.path.basename(command[0]).decode() == WORKER and state_of(pid) not in (None, "Z")


def is_gone(pid):
    """Whether it runs no more: an orphan may stay a zombie under a container's first process."""
    return state_of(pid) in (None, "Z", "X")


def wait_until(condition, what, seconds=RECOVERY_SECONDS_MAX):
    """Looks again and again until the condition is true; what it returned."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < deadline, f"waited {seconds} s in vain until {what}"
        time.sleep(0.01)


def npu_target(client):
    """What the server says of its NPUs."""
    return next(target for target in client.server_info().targets if target.target == "npu")


def healthy_devices(client):
    return sum(device.healthy for device in npu_target(client).devices)


def all_up(server, client, devices):
    """Whether each device has a worker that lives and is known to be up. A death shows in the process first."""
    return len(server.workers()) == devices and healthy_devices(client) == devices


def open_descriptors(pid):
    """What the process's descriptors are, without their numbers."""
    folder = f"/proc/{pid}/fd"
    found = []
    for name in os.listdir(folder):
        try:
            found.append(os.readlink(os.path.join(folder, name)))
        except FileNotFoundError:
            pass
    return sorted(found)
