#!/usr/bin/env python3
"""The slow lane of the network: packets that the router sends here come back late, or never.

    switch.py NAME SEED

Makes a TUN device and passes on what is read from it. Commands on stdin, a line each:

    DELAY_MS JITTER_MS LOSS_PERCENT    from now on
    count                              answers "PASSED DROPPED LATE"

`tc netem` would do the same, where the kernel has it. Many have not: those of small virtual machines, and
those of most places that run tests for others. TUN devices are everywhere.
"""

import fcntl
import heapq
import os
import random
import select
import struct
import sys
import time

TUNSETIFF = 0x400454CA
IFF_TUN, IFF_NO_PI = 0x0001, 0x1000


def main(name, seed):
    chance = random.Random(seed)
    tun = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(tun, TUNSETIFF, struct.pack("16sH", name.encode(), IFF_TUN | IFF_NO_PI))
    print("ready", flush=True)
    delay = jitter = loss = 0.0
    waiting, number = [], 0
    passed = dropped = late = 0
    said = b""
    while True:
        now = time.monotonic()
        while waiting and waiting[0][0] <= now:
            try:
                os.write(tun, heapq.heappop(waiting)[2])
                passed += 1
            except OSError:
                dropped += 1
        patience = max(0.0, waiting[0][0] - now) if waiting else None
        for fd in select.select([tun, 0], [], [], patience)[0]:
            if fd == tun:
                try:
                    packet = os.read(tun, 65536)
                except OSError:
                    continue
                if chance.random() * 100 < loss:
                    dropped += 1
                    continue
                late += delay > 0
                number += 1
                due = time.monotonic() + delay + chance.random() * jitter
                heapq.heappush(waiting, (due, number, packet))
            else:
                read = os.read(0, 4096)
                if not read:
                    return
                said += read
                *lines, said = said.split(b"\n")
                for line in lines:
                    if line == b"count":
                        print(passed, dropped, late, flush=True)
                    else:
                        delay, jitter, loss = (float(word) for word in line.split())
                        delay, jitter = delay / 1000, jitter / 1000


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
