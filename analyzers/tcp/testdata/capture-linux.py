"""Captures a transfer between two hosts of Linux through a forwarder that loses segments, for linux_loss_test.go.

capture-linux.py OUT.csv cubic|reno SACK RECOVERY EARLY LOSS DELAY-MS BURST BYTES SEED; needs root.

SACK, RECOVERY and EARLY are the sysctls tcp_sack, tcp_recovery and tcp_early_retrans. A row is written for every frame
as it leaves a host and, unless it is lost, as it reaches the other. The last line of the output says how long the
forwarder took at most to hand a frame on: if more than a millisecond, the times of arrivals are in doubt.
"""
import array
import csv
import fcntl
import heapq
import os
import random
import select
import socket
import struct
import subprocess
import sys
import time

out, control, sack, recovery, early, loss, delay, burst, size, seed = sys.argv[1:11]
loss, delay, burst = float(loss), float(delay) * 1e-3, int(burst)
HOSTS = ("10.9.0.1", "10.9.0.2")
SO_TIMESTAMPNS, SOL_PACKET, PACKET_IGNORE_OUTGOING, SIOCETHTOOL = 35, 263, 23, 0x8946

if out == "--no-offloads":  # runs in a host's namespace
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        for command in (0x1F, 0x24, 0x2C, 0x17):  # TSO, GSO, GRO, checksums
            value = array.array("B", struct.pack("II", command, 0))
            fcntl.ioctl(s, SIOCETHTOOL, struct.pack("16sP", control.encode(), value.buffer_info()[0]) + b"\0" * 16)
    sys.exit()


def run(command):
    return subprocess.run(command, shell=True, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def no_offloads(inside, link):
    run(f"{inside} python3 {os.path.abspath(__file__)} --no-offloads {link}" + " 0" * 8)


name = f"cl{os.getpid()}"
namespaces, links = [f"{name}a", f"{name}b"], [f"{name}x", f"{name}y"]
rows, server, client, slowest = [], None, None, 0
try:
    macs, taps = [], []
    for namespace, link, address in zip(namespaces, links, HOSTS):
        inside = f"ip netns exec {namespace}"
        run(f"ip netns add {namespace} && ip link add {link} type veth peer name eth0 netns {namespace}")
        run(f"sysctl -qw net.ipv6.conf.{link}.disable_ipv6=1; ip link set {link} up")
        run(f"{inside} sysctl -qw net.ipv6.conf.eth0.disable_ipv6=1 net.ipv4.tcp_ecn=0 net.ipv4.tcp_sack={sack} "
            f"net.ipv4.tcp_dsack={sack} net.ipv4.tcp_recovery={recovery} net.ipv4.tcp_early_retrans={early}")
        run(f"{inside} ip addr add {address}/24 dev eth0; {inside} ip link set eth0 up; {inside} ip link set lo up")
        no_offloads(inside, "eth0")
        no_offloads("", link)
        macs.append(run(f"{inside} cat /sys/class/net/eth0/address"))
        tap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0800))
        tap.bind((link, 0))
        tap.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        tap.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 24)
        tap.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
        tap.setblocking(False)
        taps.append(tap)
    for i in (0, 1):
        run(f"ip netns exec {namespaces[i]} ip neigh add {HOSTS[1 - i]} lladdr {macs[1 - i]} dev eth0")
    server = subprocess.Popen(["ip", "netns", "exec", namespaces[1], "python3", "-c", f"""
import socket
listener = socket.create_server(("{HOSTS[1]}", 5000))
connection, _ = listener.accept()
while connection.recv(1 << 16):
    pass
"""])
    time.sleep(1)
    client = subprocess.Popen(["ip", "netns", "exec", namespaces[0], "python3", "-c", f"""
import socket
connection = socket.socket()
connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"{control}")
connection.connect(("{HOSTS[1]}", 5000))
connection.sendall(bytes({size}))
connection.shutdown(socket.SHUT_WR)
connection.recv(1)
"""])
    draw, queue, losing, end, number = random.Random(int(seed)), [], 0, time.time() + 25, 0
    while time.time() < end:
        wait = min(0.01, max(0, queue[0][0] - time.time())) if queue else 0.01
        for tap in select.select(taps, [], [], wait)[0]:
            i = taps.index(tap)
            while True:
                try:
                    frame, extra, _, _ = tap.recvmsg(4096, 256)
                except BlockingIOError:
                    break
                seconds, nanoseconds = struct.unpack("qq", extra[0][2][:16])
                if frame[23] != socket.IPPROTO_TCP:
                    continue
                at, number = seconds * 10**9 + nanoseconds, number + 1
                rows.append((at, True, i + 1, frame))
                payload = struct.unpack("!H", frame[16:18])[0] - 20 - (frame[46] >> 4) * 4
                if losing > 0:
                    losing -= 1
                elif not frame[47] & 2 and (payload > 0 or draw.random() < 0.3) and draw.random() < loss:
                    losing = draw.randrange(burst)
                else:
                    heapq.heappush(queue, (at * 1e-9 + delay, number, i, frame))
        while queue and queue[0][0] <= time.time():
            _, _, i, frame = heapq.heappop(queue)
            before = time.time_ns()
            taps[1 - i].send(frame)
            slowest = max(slowest, time.time_ns() - before)
            rows.append((before, False, i + 1, frame))
        if client.poll() is not None and server.poll() is not None:
            end = min(end, time.time() + 3 * delay + 0.3)
finally:
    for process in (client, server):
        if process is not None and process.poll() is None:
            process.kill()
    for namespace in namespaces:
        subprocess.run(["ip", "netns", "del", namespace], stderr=subprocess.DEVNULL)

rows.sort(key=lambda row: row[0])
first, shift = {}, {}
with open(out, "w", newline="") as f:
    table = csv.writer(f, lineterminator="\n")
    table.writerow("ns sent host seq ack sack_start sack_end payload syn has_ack fin window".split())
    for at, sent, host, frame in rows:
        tcp = frame[34:]
        sequence, ack, offset, flags, window = struct.unpack("!IIBBH", tcp[4:16])
        offset = (offset >> 4) * 4
        if flags & 2:
            first[host] = sequence + 1
        start, stop, i = None, None, 20
        while i < offset and tcp[i] != 0:
            if tcp[i] == 1:
                i += 1
                continue
            if tcp[i] == 3 and flags & 2:
                shift[host] = tcp[i + 2]
            if tcp[i] == 5:
                start, stop = struct.unpack("!II", tcp[i + 2:i + 10])
            i += tcp[i + 1]

        def place(n, of):
            return 0 if n is None else n - first.get(of, n) & 0xFFFFFFFF

        yes = {True: "true", False: "false"}
        table.writerow([at - rows[0][0], yes[sent], host, place(sequence, host),
                        place(ack, 3 - host) if flags & 16 else 0, place(start, 3 - host), place(stop, 3 - host),
                        struct.unpack("!H", frame[16:18])[0] - 20 - offset, yes[flags & 2 > 0], yes[flags & 16 > 0],
                        yes[flags & 1 > 0], window if flags & 2 else window << shift.get(host, 0)])
print(f"{out}: {len(rows)} rows; a frame was handed on within {slowest / 1000:.0f} us")
