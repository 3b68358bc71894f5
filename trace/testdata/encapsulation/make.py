#!/usr/bin/env python3
"""Make the captures of this directory from ../../../packet/testdata/rxe/write-drop5.in.pcap.

Two programs that share no code with Candela write them: scapy (python3-scapy) wraps frames in headers, and, as root on Linux, the kernel
and tcpdump capture them on "any" and on the underlay of a VXLAN device, in network namespaces of their own. tshark decodes all of them to
the same packets; encapsulation_test.go compares.
"""
import gzip
import os
import struct
import subprocess
import sys
import tempfile

from scapy.all import ARP, GRE, IP, UDP, Dot1Q, Ether, PcapReader, Raw
from scapy.contrib.erspan import ERSPAN_III
from scapy.contrib.geneve import GENEVE
from scapy.contrib.mpls import MPLS
from scapy.layers.vxlan import VXLAN

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.join(HERE, "../../../packet/testdata/rxe/write-drop5.in.pcap")
COUNT = 40


def frames():
    """Return times in ns and bytes of the first RoCE frames, and of an ARP request that no test may count."""
    out = [(1_700_000_000_000_000_000, bytes(Ether(dst="ff:ff:ff:ff:ff:ff") / ARP()))]
    with PcapReader(SOURCE) as r:
        for p in r:
            b = bytes(p)
            if len(b) > 42 and b[23] == 17 and b[36:38] == b"\x12\xb7":
                out.append((int(p.time * 1_000_000_000), b))
            if len(out) > COUNT:
                return out


def write(name, link, packets):
    """Write a nanosecond pcap, compressed."""
    with gzip.GzipFile(os.path.join(HERE, name + ".pcap.gz"), "wb", mtime=0) as f:
        f.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262144, link))
        for ns, b in packets:
            f.write(struct.pack("<IIII", ns // 10**9, ns % 10**9, len(b), len(b)) + b)


def wrapped(headers):
    return [(ns, bytes(headers(Raw(b), i))) for i, (ns, b) in enumerate(frames())]


def outer(b=None):
    return Ether(dst="02:00:00:00:01:02", src="02:00:00:00:01:01") / IP(src="192.0.2.1", dst="192.0.2.2")


def tagged(b, *tags):
    head = b[:12]
    for kind, vlan in tags:
        head += struct.pack(">HH", kind, vlan)
    return head + b[12:]


def sll(b, out):
    return struct.pack(">HHH6sxx", 4 if out else 0, 1, 6, b[6:12]) + b[12:]


def sll2(b, out):
    return b[12:14] + struct.pack(">HIHBB6sxx", 0, 7, 1, 4 if out else 0, 6, b[6:12]) + b[14:]


def erspan3(b, i):
    # Granularity 1: the stamp counts 100 ns. Optional subheader in every other frame.
    ns = frames_ns[i]
    head = ERSPAN_III(vlan=3, session_id=9, timestamp=(ns // 100 + 0xFFFFFF00) % 2**32, gra=1, o=i % 2)
    raw = bytes(head)[:12] + (b"\0" * 8 if i % 2 else b"")
    return outer() / GRE(proto=0x22EB, seqnum_present=1, sequence_number=i) / Raw(raw + bytes(b))


def erf(ns, b):
    seconds = struct.pack("<Q", (ns // 10**9) << 32 | (ns % 10**9 << 32) // 10**9)
    return seconds + struct.pack(">BBHHH", 2, 4, 18 + len(b), 0, len(b)) + b"\0\0" + b


def grh(b):
    """The RoCEv1 packet with the GIDs and transport headers of a RoCEv2 one; its iCRC is made anew."""
    import zlib
    length = struct.unpack(">H", b[38:40])[0] - 8
    bth = b[42:42 + length]
    gid = b"\0" * 10 + b"\xff\xff"
    head = struct.pack(">IHBB", 6 << 28 | b[15] << 20, length, 0x1B, 64) + gid + b[26:30] + gid + b[30:34]
    masked = bytearray(head + bth[:12])
    masked[0] |= 0x0F
    for i in (1, 2, 3, 7, 44):
        masked[i] = 0xFF
    crc = zlib.crc32(b"\xff" * 8 + bytes(masked) + bth[12:-4])
    return b[:12] + b"\x89\x15" + head + bth[:-4] + struct.pack("<I", crc)


def synthetic():
    plain = frames()
    write("plain", 1, plain)
    write("qinq", 1, [(ns, tagged(b, (0x88A8, 7), (0x8100, 42))) for ns, b in plain])
    write("vlan", 1, [(ns, tagged(b, (0x8100, 42))) for ns, b in plain])
    write("sll", 113, [(ns, sll(b, i % 2)) for i, (ns, b) in enumerate(plain)])
    write("sll2", 276, [(ns, sll2(b, i % 2)) for i, (ns, b) in enumerate(plain)])
    write("raw", 101, [(ns, b[14:]) for ns, b in plain[1:]])
    write("null", 0, [(ns, struct.pack("<I", 2) + b[14:]) for ns, b in plain[1:]])
    write("erf", 197, [(ns, erf(ns, b)) for ns, b in plain])
    write("vxlan-scapy", 1, wrapped(lambda b, i: outer() / UDP(sport=40000, dport=4789) / VXLAN(vni=5, flags=8) / b))
    write("vxlan-8472", 1, wrapped(lambda b, i: outer() / UDP(sport=40000, dport=8472) / VXLAN(vni=5, flags=8) / b))
    write("geneve", 1, wrapped(lambda b, i: outer() / UDP(sport=40000, dport=6081) / GENEVE(vni=5, proto=0x6558, optionlen=2 * (i % 2)) /
                               Raw((b"\1\2\3\1\0\0\0\0" if i % 2 else b"") + bytes(b))))
    write("gre-ip", 1, [(ns, bytes(outer() / GRE(proto=0x0800, key_present=1, key=77) / Raw(b[14:]))) for ns, b in plain[1:]])
    write("gretap", 1, wrapped(lambda b, i: outer() / GRE(proto=0x6558, chksum_present=1) / b))
    write("ipip", 1, [(ns, bytes(outer() / Raw(b[14:]))[:23] + b"\4" + bytes(outer() / Raw(b[14:]))[24:]) for ns, b in plain[1:]])
    write("mpls", 1, [(ns, b[:12] + b"\x88\x47" + bytes(MPLS(label=16, s=0, ttl=9) / MPLS(label=17, s=1, ttl=9)) + b[14:])
                      for ns, b in plain[1:]])
    write("erspan1", 1, wrapped(lambda b, i: outer() / GRE(proto=0x88BE) / b))
    write("erspan2", 1, wrapped(lambda b, i: outer() / GRE(proto=0x88BE, seqnum_present=1, sequence_number=i) /
                                Raw(struct.pack(">HHI", 1 << 12 | 3, 9, 0) + bytes(b))))
    write("erspan3", 1, wrapped(erspan3))
    write("rocev1", 1, [(ns, grh(b)) for ns, b in plain[1:]])


def live():
    """Capture with tcpdump what the kernel sends and receives."""
    send = """
import socket, sys, time, gzip, struct
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
s.bind((sys.argv[1], 0))
f = gzip.open(sys.argv[2]).read()
at = 24
while at < len(f):
    n = struct.unpack_from("<I", f, at + 8)[0]
    s.send(f[at + 16:at + 16 + n])
    at += 16 + n
    time.sleep(0.001)
"""
    with tempfile.TemporaryDirectory() as d:
        script = f"""
set -e
ip link add v0 mtu 9000 type veth peer name v1
unshare -n sleep 30 & other=$!
sleep 0.3
ip link set v1 netns $other
ip addr add 192.0.2.1/24 dev v0
nsenter -t $other -n ip addr add 192.0.2.2/24 dev v1
nsenter -t $other -n ip link set v1 mtu 9000 up
ip link set v0 up
ip link add vx type vxlan id 5 remote 192.0.2.2 local 192.0.2.1 dstport 4789
ip link set vx up
nsenter -t $other -n tcpdump -i any --time-stamp-precision=nano -w {d}/any2.pcap 'udp port 4791' 2>/dev/null & a=$!
nsenter -t $other -n tcpdump -i any -y LINUX_SLL --time-stamp-precision=nano -w {d}/any1.pcap 'udp port 4791' 2>/dev/null & b=$!
nsenter -t $other -n tcpdump -i v1 -w {d}/vxlan-kernel.pcap 'udp port 4789' 2>/dev/null & c=$!
sleep 2
python3 {d}/send.py v0 {HERE}/plain.pcap.gz
sleep 0.5
python3 {d}/send.py vx {HERE}/plain.pcap.gz
sleep 2
kill -INT $a $b $c
wait $a $b $c || true
kill $other
"""
        with open(os.path.join(d, "send.py"), "w") as f:
            f.write(send)
        subprocess.run(["unshare", "-n", "bash", "-c", script], check=True, timeout=60)
        for name, to in (("any1", "any-sll"), ("any2", "any-sll2"), ("vxlan-kernel", "vxlan-kernel")):
            with open(os.path.join(d, name + ".pcap"), "rb") as f, gzip.GzipFile(os.path.join(HERE, to + ".pcap.gz"), "wb", mtime=0) as g:
                g.write(f.read())


frames_ns = [ns for ns, _ in frames()]
synthetic()
if "--live" in sys.argv:
    live()
