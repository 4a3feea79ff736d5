# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One host of the lab: run things on it, change its GPUs, break it."""

from __future__ import annotations

import io
import json
import shlex
import subprocess
import tarfile
import time
from collections.abc import Callable
from dataclasses import dataclass

from . import state as states
from .docker_cli import DockerError, docker

APPLY = """
set -e
lib=/usr/lib/$(uname -m)-linux-gnu
share=/usr/share/simulated-gpu
run=/run/simulated-gpu
[ ! -e $run/holders ] || xargs -r kill -KILL <$run/holders 2>/dev/null || true
mountpoint -q $run || { mkdir -p $run; mount -t tmpfs -o mode=755 simulated-gpu $run; }
mountpoint -q /proc/driver || mount -t tmpfs proc-driver /proc/driver
for tree in module class bus; do
  mountpoint -q /sys/$tree && umount /sys/$tree
  rm -rf $run/$tree $run/$tree.work; mkdir -p $run/$tree $run/$tree.work
  mount -t overlay overlay -o lowerdir=/sys/$tree,upperdir=$run/$tree,workdir=$run/$tree.work /sys/$tree
done
find $run -maxdepth 1 -type f -delete
rm -rf /proc/driver/nvidia /dev/nvidia* $lib/libnvidia-ml.so* $lib/libcuda.so* /usr/bin/nvidia-smi
tar -x -C / -f -
cp $share/query.txt $share/query.xml $run/
chmod 666 $run/cuda.log
cat /var/lib/dpkg/status.plain $run/packages >/var/lib/dpkg/status
[ -z "$VERSION" ] || {
  for name in libnvidia-ml libcuda; do
    cp $share/$name.so $lib/$name.so.$VERSION
    ln -s $name.so.$VERSION $lib/$name.so.1
  done
  cp $share/nvidia-smi /usr/bin/nvidia-smi
}
ldconfig
for device in $DEVICES; do
  mkdir -p $(dirname /dev/$device)
  mknod -m 666 /dev/$device c 1 3
done
"""

# A process that holds GPU memory; argv: GPU number, MiB. Its name is set by whoever starts it.
HOLDER = """
import ctypes, signal, sys
gpu, mib = int(sys.argv[1]), int(sys.argv[2])
libc = ctypes.CDLL(None)
libc.prctl(15, sys.argv[3].encode()[:15], 0, 0, 0)
cuda, context, memory = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_uint64()
codes = [cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), gpu)]
codes.append(cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t((mib - 500) << 20)))
if any(codes):
    sys.exit(f"no memory for the holder: {codes}")
signal.pause()
"""


@dataclass
class Result:
    """What a command on a host ended with."""

    rc: int
    out: str
    err: str


@dataclass
class Node:
    """One host. Its number counts from 1; address and network belong to its lab."""

    container: str
    number: int
    address: str
    network: str

    @property
    def name(self) -> str:
        """Name in the inventory, and the host's own."""
        return f"n{self.number}"

    # --- using it ---------------------------------------------------------------------------------------------

    def run(self, argv: list[str], *, user: str = "root", stdin: bytes = b"", check: bool = True, timeout: float = 120) -> Result:
        """Run a command on the host, beside Ansible and ssh."""
        command = ["docker", "exec", "-i", "-u", user, self.container, *argv]
        done = subprocess.run(command, input=stdin, capture_output=True, timeout=timeout, check=False)
        result = Result(done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))
        if check and result.rc:
            raise DockerError(f"{shlex.join(argv)} on {self.name} ended with {result.rc}: {(result.err or result.out).strip()}")
        return result

    def sh(self, script: str, *, check: bool = True) -> Result:
        """Run a shell script on the host."""
        return self.run(["sh", "-s"], stdin=script.encode(), check=check)

    def put(self, path: str, content: str | bytes, *, mode: int = 0o644) -> None:
        """Write a file on the host."""
        data = content.encode() if isinstance(content, str) else content
        self.run(["tar", "-x", "-C", "/", "-f", "-"], stdin=archive({path: data}, mode=mode))

    def docker(self, *args: str, check: bool = True, timeout: float = 120) -> Result:
        """The host's own docker."""
        return self.run(["docker", *args], check=check, timeout=timeout)

    def load_image(self, image: str) -> None:
        """Bring an image of the machine's docker into the host's docker, unless it is there already."""
        wanted = docker("image", "inspect", "-f", "{{.Id}}", image).strip()
        if self.docker("image", "inspect", "-f", "{{.Id}}", image, check=False).out.strip() == wanted:
            return
        with subprocess.Popen(["docker", "save", image], stdout=subprocess.PIPE) as saved:
            subprocess.run(["docker", "exec", "-i", self.container, "docker", "load", "-q"], stdin=saved.stdout, check=True, capture_output=True)

    # --- its GPUs ---------------------------------------------------------------------------------------------

    def set_state(self, name: str, **changes: str) -> None:
        """Put the host's GPUs into a ready-made state; keys may be changed with `gpu_0_lost="yes"` for gpu.0.lost."""
        state = states.load(name, self.number)
        state.update({key.replace("_ALL_", ".*.").replace("__", "."): value for key, value in changes.items()})
        self.apply(state)

    def apply(self, state: states.State) -> None:
        """Make the host show this state, and start the processes that hold its GPUs."""
        architecture = self.run(["dpkg", "--print-architecture"]).out.strip()
        machine = self.run(["uname", "-m"]).out.strip()
        files = states.host_files(state, architecture, machine)
        environment = ["env", f"VERSION={state.get('library_version', '')}", f"DEVICES={' '.join(states.devices(state))}"]
        packed = archive({path: text.encode() for path, text in files.items()})
        self.run([*environment, "sh", "-c", APPLY], stdin=packed)
        for holder in states.numbered(state, "holder"):
            self.hold(*holder.split())

    def hold(self, gpu: str, mib: str, user: str, title: str) -> None:
        """Start a process that holds GPU memory: a script with its shell, or a bare title, which is an orphan."""
        self.put("/usr/local/lib/holder.py", HOLDER)
        script = title.endswith(".py")
        path = f"/home/{user}/{title}"
        if script:
            self.put(path, HOLDER)
            start = f"(python3 {path} {gpu} {mib} python3; true) &"
        else:
            code = f"import os; os.execv('/usr/bin/python3', ['{title}', '/usr/local/lib/holder.py', '{gpu}', '{mib}', '{title}'])"
            start = f"(setsid python3 -c \"{code}\" &)"
        self.run(["sh", "-c", f"exec >/dev/null 2>&1; cd /tmp; {start} sleep 0.1"], user=user)
        wait_for(lambda: bool(self.holders()), f"a process that holds GPU {gpu} on {self.name}")
        self.sh("awk '$2 == \"POSIX\" {print $5}' /proc/locks >/run/simulated-gpu/holders")

    def holders(self) -> list[int]:
        """PIDs that hold GPU memory on the host, by the simulated driver's own books."""
        out = self.run(["nvidia-smi", "--query-compute-apps=pid", "--format=csv,noheader"], check=False).out
        return [int(line) for line in out.split() if line.isdigit()]

    # --- breaking it --------------------------------------------------------------------------------------------

    def cut(self) -> None:
        """Pull the network cable: established connections stay open on both sides and say nothing more."""
        docker("network", "disconnect", self.network, self.container)

    def heal(self) -> None:
        """Put the cable back; the address is the same, the interface may have another name."""
        docker("network", "connect", "--ip", self.address, self.network, self.container)

    def cut_from(self, other: Node) -> None:
        """Drop everything between two hosts, both directions; ssh from outside goes on."""
        self.sh(f"iptables -A INPUT -s {other.address} -j DROP; iptables -A OUTPUT -d {other.address} -j DROP")

    def heal_from(self, other: Node) -> None:
        """Undo cut_from."""
        self.sh(f"iptables -D INPUT -s {other.address} -j DROP; iptables -D OUTPUT -d {other.address} -j DROP")

    def pause(self) -> None:
        """Stop every process of the host, as a hung kernel would. Freezing a busy host fails now and then: repeat."""
        wait_for(lambda: _succeeds("pause", self.container), f"{self.name} to be paused")

    def resume(self) -> None:
        """Undo pause."""
        docker("unpause", self.container)

    def reboot(self) -> None:
        """Kill everything at once and start again: a new driver on disk is loaded, processes are gone, docker restarts what it must."""
        text = self.run(["cat", "/run/simulated-gpu/state"]).out
        state = dict(line.split(" = ", 1) for line in text.splitlines())
        if "module_version" in state:
            state["driver_version"] = state["library_version"] = state["module_version"]
        docker("kill", self.container)
        docker("start", self.container)
        self.wait()
        self.apply({key: value for key, value in state.items() if not key.startswith("holder.")})

    def kill_engine(self, container: str) -> None:
        """SIGKILL to the first process of a container, past its docker."""
        pid = self.docker("inspect", "-f", "{{.State.Pid}}", container).out.strip()
        self.run(["kill", "-KILL", pid])

    def kill_dockerd(self) -> None:
        """SIGKILL to dockerd; its containers live on without it."""
        self.sh("kill -KILL $(cat /run/docker.pid)")

    def start_dockerd(self) -> None:
        """Start dockerd again, as the system would; it stops the containers that outlived it."""
        self.sh("rm -f /run/docker.pid; setsid dockerd >>/var/log/dockerd.log 2>&1 </dev/null &")
        wait_for(lambda: not self.docker("info", check=False).rc, f"dockerd of {self.name}")

    def fill_disk(self, *folders: str, free_kib: int = 0) -> None:
        """Make these folders a full file system of their own (tmpfs, ENOSPC from the kernel); what was in them is hidden."""
        for folder in folders:
            self.sh(
                f"set -e; mkdir -p {folder}; mode=$(stat -c %a {folder}); owner=$(stat -c %u:%g {folder})\n"
                f"mount -t tmpfs -o size=1m,mode=$mode lab-full {folder}; chown $owner {folder}\n"
                f"dd if=/dev/zero of={folder}/.fill bs=4k 2>/dev/null || true; truncate -s -{free_kib}K {folder}/.fill"
            )

    def free_disk(self, *folders: str) -> None:
        """Undo fill_disk."""
        for folder in folders:
            self.run(["umount", "-l", folder])

    def skew_clock(self, seconds: float) -> None:
        """Let programs started from now on see a clock that is off. Real for what links libc (date, Python, sshd's
        sessions); dockerd, the kernel's own times and programs inside containers keep the machine's clock."""
        self.sh(
            "library=$(ls /usr/lib/*/faketime/libfaketime.so.1) && echo \"$library\" >/etc/ld.so.preload\n"
            f"echo '{seconds:+g}s' >/etc/faketimerc"
        )

    def right_clock(self) -> None:
        """Undo skew_clock."""
        self.run(["rm", "-f", "/etc/ld.so.preload", "/etc/faketimerc"])

    def slow_network(self, kbit: int) -> None:
        """Limit what the host sends (token bucket). There is no added latency: the kernel has no netem."""
        self.sh(f"tc qdisc replace dev {self._interface()} root tbf rate {kbit}kbit burst 16kb latency 400ms")

    def full_network(self) -> None:
        """Undo slow_network."""
        self.sh(f"tc qdisc del dev {self._interface()} root")

    def _interface(self) -> str:
        for link in json.loads(self.run(["ip", "-j", "addr"]).out):
            if any(address.get("local") == self.address for address in link["addr_info"]):
                return str(link["ifname"])
        raise DockerError(f"{self.name} has no interface with {self.address}; is it cut off?")

    def wait(self) -> None:
        """Until sshd, and dockerd where the host has one, answer."""
        has_docker = self.run(["printenv", "LAB_DOCKER"], check=False).out.strip() != "no"
        ready = "ss -Hltn sport = :22 | grep -q ." + (" && docker version >/dev/null 2>&1" if has_docker else "")
        wait_for(lambda: not self.sh(ready, check=False).rc, f"{self.name} to be up")


def wait_for(true: Callable[[], bool], what: str, *, seconds: float = 30) -> None:
    """Ask again until it is true; the error says what did not come."""
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            raise TimeoutError(f"waited {seconds:g} s for {what}")
        time.sleep(0.05)


def _succeeds(*args: str) -> bool:
    try:
        docker(*args)
    except DockerError:
        return False
    return True


def archive(files: dict[str, bytes], *, mode: int = 0o644) -> bytes:
    """A tar stream of these files."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for path, data in files.items():
            member = tarfile.TarInfo(path.lstrip("/"))
            member.size, member.mode, member.mtime = len(data), mode, int(time.time())
            tar.addfile(member, io.BytesIO(data))
    return buffer.getvalue()
