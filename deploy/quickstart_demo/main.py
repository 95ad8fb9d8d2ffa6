"""The quickstart after the build: a server, three jobs on real input, and whether all came out right."""

import pathlib
import re
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "client" / "python"))
sys.path.insert(0, str(ROOT / "tests" / "support"))

import command_line  # noqa: E402
import photograph  # noqa: E402
import training  # noqa: E402

import aclnn_client  # noqa: E402

SERVER = "bazel-bin/server/aclnn-server"
OUTPUT = pathlib.Path("quickstart-output")


class Server:
    """The server on a free port; stopped at the end, which has to be a clean one."""

    def __enter__(self):
        command = [SERVER, "--listen", "127.0.0.1:0", "--drain-grace", "0ms"]
        self._log = open(ROOT / OUTPUT / "server.log", "w", encoding="utf-8")
        self._process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self._log, text=True)
        for line in self._process.stdout:
            match = re.match(r"listening on (\S+)", line)
            if match:
                self.address = match.group(1)
                print(f"server       {shlex.join(command)}: {line.strip()}")
                return self
        raise SystemExit(f"the server did not start, see {OUTPUT / 'server.log'}")

    def __exit__(self, *exception):
        self._process.terminate()
        code = self._process.wait(60)
        self._process.stdout.close()
        self._log.close()
        print(f"server       stopped, exit code {code}")
        if code != 0:
            raise SystemExit(1)


def main():
    (ROOT / OUTPUT).mkdir(exist_ok=True)
    right = True
    with Server() as server, aclnn_client.Client(server.address, numerics="exact") as client:
        for job in (photograph.run, command_line.run, training.run):
            right = job(client, server.address, ROOT, OUTPUT) and right
    print("all results are right" if right else "SOMETHING IS WRONG, see above")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
