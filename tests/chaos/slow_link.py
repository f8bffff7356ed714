"""A link between the members that delays packets and loses some: a router in this process, over TUN devices.

Runs in a thread of its own. The kernel's own queueing discipline for this (netem) is missing in many of them.
"""

import array
import fcntl
import heapq
import os
import random
import selectors
import socket
import struct
import subprocess
import sys
import threading
import time

from tests.chaos.network import Network, Place, Unable, run

DEVICE = "slow0"
PACKET_BYTES_MAX = 2_048
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
QUEUE_MAX = 20_000
"""Packets under way; further ones are lost, as on every link."""
OPEN_S = 10.0


def open_device() -> None:
    """Make the device in this process's namespace, and pass its descriptor to the parent over stdin, a socket."""
    device = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH", DEVICE.encode(), IFF_TUN | IFF_NO_PI))
    with socket.socket(fileno=os.dup(0)) as parent:
        parent.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [device]))])


def _device_of(place: Place) -> int:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        command = place.enter(sys.executable, "-c", "from tests.chaos.slow_link import open_device; open_device()")
        ended = subprocess.run(
            command, stdin=theirs.fileno(), capture_output=True, text=True, timeout=OPEN_S, check=False
        )
        if ended.returncode:
            raise Unable(f"no TUN device: {ended.stderr.strip()[-300:]}")
        _, [device], _, _ = socket.recv_fds(ours, 1, 1)
    os.set_blocking(device, False)
    return device


class SlowLink:
    """Carries all packets between members, from ``begin`` until ``end``; those of a direction stay in order."""

    def __init__(self, network: Network, delay_s: float, loss: float, seed: int) -> None:
        self._network = network
        self._delay_s = delay_s
        self._loss = loss
        self._random = random.Random(seed)
        self._devices: dict[str, int] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="slow-link")
        self.carried = self.lost = 0

    def begin(self) -> None:
        """Make the devices, and send packets for members over them."""
        for place in self._network.places:
            self._devices[place.ip] = _device_of(place)
            run(*place.enter("ip", "link", "set", DEVICE, "up", "mtu", "1400"))
        self._thread.start()
        for place in self._network.places:
            for other in self._network.places:
                if other is not place:
                    route = ("ip", "route", "replace", f"{other.ip}/32", "dev", DEVICE, "src", place.ip)
                    run(*place.enter(*route))

    def end(self) -> None:
        """Let packets go the short way again, and lose those under way."""
        for place in self._network.places:
            run(*place.enter("ip", "route", "flush", "dev", DEVICE))
        self._stop.set()
        self._thread.join()
        for device in self._devices.values():
            os.close(device)

    def _run(self) -> None:
        by_address = {socket.inet_aton(ip): device for ip, device in self._devices.items()}
        under_way: list[tuple[float, int, int, bytes]] = []
        number = 0
        with selectors.DefaultSelector() as selector:
            for device in self._devices.values():
                selector.register(device, selectors.EVENT_READ)
            while not self._stop.is_set():
                wait_s = max(under_way[0][0] - time.monotonic(), 0) if under_way else 0.1
                for key, _ in selector.select(min(wait_s, 0.1)):
                    try:
                        packet = os.read(key.fd, PACKET_BYTES_MAX)
                    except BlockingIOError:
                        continue
                    target = by_address.get(packet[16:20])
                    if packet[0] >> 4 != 4 or target is None:
                        continue
                    if self._random.random() < self._loss or len(under_way) >= QUEUE_MAX:
                        self.lost += 1
                        continue
                    number += 1
                    heapq.heappush(under_way, (time.monotonic() + self._delay_s, number, target, packet))
                now_s = time.monotonic()
                while under_way and under_way[0][0] <= now_s:
                    _, _, target, packet = heapq.heappop(under_way)
                    self.carried += 1
                    try:
                        os.write(target, packet)
                    except OSError:
                        self.lost += 1
