#!/usr/bin/env python3
"""clients_that_never_read.py PORT PID COUNT SECONDS: COUNT connections that ask for ranges and read nothing.

Prints the largest and the last resident size of the process, in MiB.
"""

import socket
import sys
import time

# Four times: range from the first to the last key, no limit, linearizable, 10 s.
ASK = bytes.fromhex("940001a572616e676597c400c400000000cd271000") * 4

port, process, count, seconds = (int(word) for word in sys.argv[1:])


def resident_mib():
    with open(f"/proc/{process}/status", encoding="ascii") as status:
        line = next(line for line in status if line.startswith("VmRSS"))
    return int(line.split()[1]) // 1024


clients = []
for _ in range(count):
    client = socket.create_connection(("127.0.0.1", port), timeout=5)
    client.sendall(ASK)
    clients.append(client)
largest = last = 0
end = time.monotonic() + seconds
while time.monotonic() < end:
    last = resident_mib()
    largest = max(largest, last)
    time.sleep(0.1)
print(largest, last)
