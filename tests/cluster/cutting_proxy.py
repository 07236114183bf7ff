"""A path to 127.0.0.1:TO that is slow, and breaks every now and then. Run as: cutting_proxy.py FROM TO
BYTES_PER_SECOND CUT_AFTER_BYTES REPORT. What it has forwarded and cut is in the file REPORT, one line."""
import os
import select
import socket
import sys
import time


def main():
    port, to, rate, cut_after = (int(word) for word in sys.argv[1:5])
    report = sys.argv[5]
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen()
    pairs = {}  # socket -> the other end
    inward = set()  # sockets whose input is on its way to TO
    total = since = cuts = 0
    print("ready", flush=True)

    def drop(end):
        other = pairs.pop(end, None)
        inward.discard(end)
        end.close()
        if other is not None:
            pairs.pop(other, None)
            inward.discard(other)
            other.close()

    while True:
        readable, _, _ = select.select([listener, *pairs], [], [], 1)
        for end in readable:
            if end is listener:
                client, _ = listener.accept()
                try:
                    server = socket.create_connection(("127.0.0.1", to))
                except OSError:
                    client.close()
                    continue
                pairs[client], pairs[server] = server, client
                inward.add(client)
                continue
            if end not in pairs:
                continue
            try:
                data = end.recv(16384)
                if data:
                    pairs[end].sendall(data)
            except OSError:
                data = b""
            if not data:
                drop(end)
            elif end in inward:
                total += len(data)
                since += len(data)
                time.sleep(len(data) / rate)
        if since >= cut_after:
            cuts += 1
            since = 0
            for end in list(pairs):
                if end in pairs:
                    drop(end)
        with open(report + ".new", "w") as out:
            out.write(f"{total} {cuts}\n")
        os.replace(report + ".new", report)


main()
