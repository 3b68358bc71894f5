package main

import (
	"fmt"
	"strconv"
)

// How to add a figure: append a line. Its source is one of
//
//	benchmark{pkg, name, unit}   a Go benchmark; perSecond turns ns per something into a rate
//	program{command, on, value}  a whole process, on the capture of a workload if it needs one
//	pcapgoLoop{on}               reading alone
//
// A peer is a source, too; both must have the figure's unit.

// fuzzedRuns are enough that the start of the process hardly counts.
const fuzzedRuns = 2000

// lockRequests is what bench/testdata/lock-e1.yml asks for.
const lockRequests = 1_920_000

func lockRequestsPerCPUSecond(u usage, _ int) float64 { return lockRequests / u.cpu.Seconds() }

func fuzzedPerCPUSecond(u usage, _ int) float64 { return fuzzedRuns / u.cpu.Seconds() }

// millionPackets is what analysis is measured on: 1.0 M data packets and their ACKs.
var millionPackets = &workload{connections: 64, messages: 1560}

// millionWithDrops is as long, with a loss every thousand packets: analysis must stay linear in drops, too.
var millionWithDrops = &workload{connections: 64, messages: 1560, drops: 1000}

var (
	bareRead = &peer{"pcapgo read alone", pcapgoLoop{on: millionPackets}}
	mergecap = &peer{"mergecap", program{command: []string{"mergecap", "-F", "nsecpcap", "-w", "OUT", "SHARDS"},
		on: millionPackets, value: packetsPerCPUSecond}}
	// 1024 bytes of payload with headers and record header, and a tenth of an ACK.
	writing = &peer{"writing the bytes alone", rawWrite{bytesPerPacket: 1112, packets: 64_000}}
	tshark  = &peer{"tshark, one field",
		program{command: []string{"tshark", "-n", "-r", "TRACE", "-T", "fields", "-e", "infiniband.bth.psn"},
			on: millionPackets, first: 100_000, value: packetsPerCPUSecond}}
)

// startOfIssue is the version that the speed of analyze is compared with: the last before traces of any capture were
// judged.
const startOfIssue = "91f645e"

// before returns that version of candela as peer on the same packets.
func before(args ...string) *peer {
	return &peer{startOfIssue, program{command: append([]string{"candela@" + startOfIssue}, args...), on: millionPackets,
		value: packetsPerCPUSecond}}
}

// permutation runs that of 432 hosts with a number of workers on two processors.
func permutation(workers string) program {
	return program{command: []string{"candela", "run", "bench/testdata/permutation-432.yml", "--workers", workers,
		"--out", "OUT"}, cpus: 2, value: wallMilliseconds}
}

func onFabric(name, unit string) benchmark {
	return benchmark{pkg: "./testbeds/virtual/fabric", name: name, unit: unit}
}

// startOfScale is the version that the fabric's speed is compared with: the last before events of one instant had an
// order of their own (ADR 24).
const startOfScale = "6264a0a1"

// hopsOf is the speed of the engine in a permutation on a fat tree, beside what it was.
func hopsOf(hosts int) figure {
	b := onFabric(fmt.Sprintf("BenchmarkNDPPermutation/hosts=%d", hosts), "Mhops/cpu-s")
	before := b
	before.at, before.with = startOfScale, []string{"bench_test.go"}
	return figure{name: fmt.Sprintf("fabric: hops of NDP at %d hosts, beside %s", hosts, startOfScale),
		unit: "Mhops/CPU s", ratio: atLeast(1.3), source: b, peer: &peer{startOfScale, before}}
}

// asUsersRun is the CPU time of the whole command.
func asUsersRun(config string) program {
	return program{command: []string{"candela", "run", "bench/testdata/" + config, "--out", "OUT"}, value: cpuSecondsOf}
}

// ranked is a switch that schedules by rank, at twice the load, beside tail drop.
func ranked(name, config string) figure {
	f := shownRanked(name, config)
	f.ratio = atMost(1.5)
	return f
}

// shownRanked is one without a target.
func shownRanked(name, config string) figure {
	return figure{name: name + " at twice the load of a link, beside tail drop", unit: "CPU s",
		source: asUsersRun("rank-" + config + ".yml"), peer: &peer{"tail drop", asUsersRun("rank-fifo.yml")}}
}

// once runs a configuration that takes minutes.
func once(config string, value func(u usage, packets int) float64) program {
	p := asUsersRun(config)
	p.once, p.value = true, value
	return p
}

var figures = []figure{
	{name: "virtual testbed, WRITE at 100 Gb/s, 64 QPs, capture off", unit: "hops/s", target: atLeast(5e6),
		source: benchmark{pkg: "./bench", name: "BenchmarkVirtualCaptureOff", unit: "hops/s"}},
	{name: "the same, every packet mirrored and written as pcap", unit: "packets/s", target: atLeast(0.6e6), peer: writing,
		source: benchmark{pkg: "./bench", name: "BenchmarkVirtualCaptured", unit: "packets/s"}},

	{name: "analyze 1 M packets: integrity and all analyzers", unit: "packets/s", target: atLeast(4e6),
		peer: before("analyze", "RUN"), ratio: atLeast(1.2),
		source: program{command: []string{"candela", "analyze", "RUN"}, on: millionPackets, value: packetsPerCPUSecond}},
	{name: "the same trace without its run: connections inferred", unit: "packets/s", peer: before("analyze", "TRACE"),
		source: program{command: []string{"candela", "analyze", "TRACE"}, on: millionPackets, value: packetsPerCPUSecond}},
	{name: "the same frames as a single capture: with the observer", unit: "packets/s",
		peer: before("analyze", "--input", "plain", "TRACE"),
		source: program{command: []string{"candela", "analyze", "--input", "plain", "TRACE"}, on: millionPackets,
			value: packetsPerCPUSecond}},
	{name: "the run, beside one field by tshark", unit: "packets/s", peer: tshark,
		source: program{command: []string{"candela", "analyze", "RUN"}, on: millionPackets, value: packetsPerCPUSecond}},
	{name: "the same with 1000 drops", unit: "packets/s", target: atLeast(4e6), peer: bareRead,
		source: program{command: []string{"candela", "analyze", "RUN"}, on: millionWithDrops, statuses: []int{1},
			value: packetsPerCPUSecond}},
	{name: "analyze by one worker, beside two (idle cores)", unit: "ms", ratio: atLeast(1.8),
		source: program{command: []string{"candela", "analyze", "RUN", "--workers", "1"}, on: millionPackets, cpus: 2,
			value: wallMilliseconds},
		peer: &peer{"two workers", program{command: []string{"candela", "analyze", "RUN", "--workers", "2"},
			on: millionPackets, cpus: 2,
			value: wallMilliseconds}}},
	{name: "analyze: state of an idle connection, all analyzers together", unit: "bytes", target: atMost(8 << 10),
		source: benchmark{pkg: "./orchestrator", name: "BenchmarkIdleConnection/mirror", unit: "bytes/connection"}},
	{name: "the same in a single capture, with the observer", unit: "bytes", target: atMost(8 << 10),
		source: benchmark{pkg: "./orchestrator", name: "BenchmarkIdleConnection/plain", unit: "bytes/connection"}},
	{name: "analyze 1 M packets: memory", unit: "MB", target: atMost(64),
		source: program{command: []string{"candela", "analyze", "RUN"}, on: millionPackets, value: peakMegabytes}},

	{name: "reconstruct 8 shards, 1 M packets, to one pcap", unit: "packets/s", peer: mergecap, ratio: atLeast(2),
		source: program{command: []string{"candela", "trace", "merge", "--out", "OUT", "SHARDS"}, on: millionPackets,
			value: packetsPerCPUSecond, warm: true}},

	ranked("PIFO", "pifo"), ranked("SP-PIFO", "sp-pifo"), ranked("AIFO", "aifo"),
	shownRanked("PIEO, flows paced", "pieo"), shownRanked("HPIFO, four nodes", "hpifo"), shownRanked("AFQ", "afq"),

	{name: "injector pipeline, parsed headers, 4096 flows, 8192 events", unit: "ns/packet", target: atMost(60),
		source: benchmark{pkg: "./injector/pipeline", name: "BenchmarkProcess", unit: "ns/op"}},
	{name: "injector pipeline, bytes in to bytes out", unit: "ns/packet", target: atMost(150),
		source: benchmark{pkg: "./injector/pipeline", name: "BenchmarkBytes", unit: "ns/op"}},
	{name: "HCSFQ: a packet at a port, three layers", unit: "ns", target: atMost(150),
		source: benchmark{pkg: "./testbeds/switches/fair", name: "BenchmarkPacket/levels=3/mode=ideal", unit: "ns/op"}},
	{name: "HCSFQ: the same in mode dataplane", unit: "ns", target: atMost(150),
		source: benchmark{pkg: "./testbeds/switches/fair", name: "BenchmarkPacket/levels=3/mode=dataplane", unit: "ns/op"}},
	{name: "HCSFQ: allocations a packet", unit: "allocs", target: atMost(0),
		source: benchmark{pkg: "./testbeds/switches/fair", name: "BenchmarkPacket/levels=3/mode=ideal", unit: "allocs/op"}},
	{name: "PD: a hop, beside ECMP", unit: "ns", ratio: atMost(1.6),
		source: benchmark{pkg: "./testbeds/switches/deflect", name: "BenchmarkHop/pd", unit: "cpu-ns/hop"},
		peer: &peer{"ECMP",
			benchmark{pkg: "./testbeds/switches/deflect", name: "BenchmarkHop/ecmp", unit: "cpu-ns/hop"}}},
	{name: "injector pipeline, allocations a packet", unit: "allocs", target: atMost(0),
		source: benchmark{pkg: "./injector/pipeline", name: "BenchmarkProcess", unit: "allocs/op"}},

	{name: "candela run configs/quickstart.yml, whole process", unit: "ms", target: atMost(150),
		source: program{command: []string{"candela", "run", "configs/quickstart.yml", "--out", "OUT"},
			value: wallMilliseconds}},

	{name: "candela fuzz, judged runs a second and core", unit: "runs/s", target: atLeast(500),
		source: program{command: []string{"candela", "fuzz", "configs/quickstart.yml", "--runs", strconv.Itoa(fuzzedRuns),
			"--corpus", "OUT"},
			value: fuzzedPerCPUSecond}},

	{name: "P4Runtime, single writes over bufconn", unit: "writes/s", target: atLeast(20e3),
		source: benchmark{pkg: "./injector/switchd", name: "BenchmarkSingleWrites", unit: "writes/s"}},
	{name: "P4Runtime, entries in batches of 1000, controller and switch on a core each", unit: "entries/s",
		target: atLeast(300e3),
		source: benchmark{pkg: "./injector/switchd", name: "BenchmarkBatchWrites", unit: "entries/s", cpus: 2}},
	{name: "the same with one core for both", unit: "entries/s",
		source: benchmark{pkg: "./injector/switchd", name: "BenchmarkBatchWrites", unit: "entries/s"}},

	{name: "fabric: 64:1 NDP incast, window 1000, 10 000 packets each", unit: "CPU s", peer: htsimSwitch(0.94),
		ratio:  atMost(1),
		source: onFabric("BenchmarkNDPIncast", "cpu-s/op")},
	{name: "fabric: 128-host fat tree, NDP permutation of 10 MB", unit: "CPU s",
		peer: htsimPermutation(16.7, 128, 10_000_000), ratio: atMost(1. / 4),
		source: onFabric("BenchmarkNDPPermutation/hosts=128", "cpu-s/op")},
	{name: "fabric: 432-host fat tree, NDP permutation of 3 MB", unit: "CPU s",
		peer: htsimPermutation(40.5, 432, 3_000_000), ratio: atMost(1. / 6),
		source: onFabric("BenchmarkNDPPermutation/hosts=432", "cpu-s/op")},
	{name: "fabric: hops at 432 hosts, beside those at 65", unit: "Mhops/CPU s", target: atLeast(4), ratio: atLeast(0.5),
		source: onFabric("BenchmarkNDPPermutation/hosts=432", "Mhops/cpu-s"),
		peer:   &peer{"incast of 65 hosts", onFabric("BenchmarkNDPIncast", "Mhops/cpu-s")}},
	{name: "fabric: hops of NDP at 432 hosts, beside packets without transport", unit: "Mhops/CPU s",
		source: onFabric("BenchmarkNDPPermutation/hosts=432", "Mhops/cpu-s"),
		peer:   &peer{"constant rate", onFabric("BenchmarkFatTree/hosts=432", "Mhops/cpu-s")}},
	{name: "fabric: memory at 432 hosts, windows of 56 160 packets", unit: "MB",
		source: onFabric("BenchmarkNDPPermutation/hosts=432", "heap-MB")},
	hopsOf(16), hopsOf(128), hopsOf(432), hopsOf(1024), hopsOf(3456),
	{name: "candela run: 64:1 NDP incast, all judged", unit: "CPU s", peer: htsimSwitch(1.29), ratio: atMost(1),
		source: asUsersRun("incast-judged.yml")},
	{name: "candela run: 64:1 NDP incast, judge off", unit: "CPU s", peer: htsimSwitch(1.29), ratio: atMost(1 / 1.8),
		source: asUsersRun("incast.yml")},
	{name: "candela run: shared locks of NetLock (E1), judge off", unit: "requests/CPU s", target: atLeast(1e6),
		source: program{command: []string{"candela", "run", "bench/testdata/lock-e1.yml", "--out", "OUT"},
			value: lockRequestsPerCPUSecond}},
	{name: "candela run: permutation of 128 hosts, judge off", unit: "CPU s", ratio: atMost(1. / 3),
		peer: htsimCheapest(16.9, 128, 10_000_000), source: asUsersRun("ndp-permutation-128.yml")},
	{name: "candela run: permutation of 432 hosts, judge off", unit: "CPU s", ratio: atMost(1. / 5),
		peer: htsimCheapest(40.6, 432, 3_000_000), source: asUsersRun("ndp-permutation-432.yml")},
	{name: "candela run: web search at load 0.6, 144 hosts, DCTCP, 1 simulated second, judge off", unit: "CPU s",
		target: atMost(120), source: once("web-search.yml", cpuSecondsOf)},
	{name: "the same: memory", unit: "MB", target: atMost(200), source: once("web-search.yml", peakMegabytes)},
	{name: "candela run: 10⁶ NDP flows of 6 kB in 160 items, 320 hosts, judge off: memory", unit: "MB",
		target: atMost(256), source: once("million-flows-ndp.yml", peakMegabytes)},
	{name: "the same with TCP", unit: "MB", target: atMost(256), source: once("million-flows-tcp.yml", peakMegabytes)},
	{name: "fabric: a sweep on one core, beside two (idle cores)", unit: "ns", ratio: atLeast(1.7),
		source: onFabric("BenchmarkSweep/workers=1", "ns/op"),
		peer:   &peer{"two cores", onFabric("BenchmarkSweep/workers=2", "ns/op")}},

	{name: "candela run of a 432-host permutation by one worker, beside two (idle cores)", unit: "ms",
		ratio: atLeast(1.7), source: permutation("1"), peer: &peer{"two workers", permutation("2")}},

	{name: "packet: parse a 1 KB WRITE", unit: "ns/packet",
		source: benchmark{pkg: "./packet", name: "BenchmarkParse/WRITE_MIDDLE/IPv4", unit: "ns/op"}},
	{name: "packet: serialise it with checksums and iCRC", unit: "ns/packet",
		source: benchmark{pkg: "./packet", name: "BenchmarkAppendTo/derived=true/WRITE_MIDDLE/IPv4", unit: "ns/op"}},
	{name: "packet: check its iCRC", unit: "ns/packet",
		source: benchmark{pkg: "./packet", name: "BenchmarkCheckICRC/WRITE_MIDDLE/IPv4", unit: "ns/op"}},

	{name: "XDP injector, live frames into veth, no mirror, to a bare redirect", unit: "ratio", target: atMost(2),
		source: benchmark{pkg: "./injector/xdp", name: "BenchmarkLiveFrames", unit: "forward/bare"}},
	{name: "the same with mirror", unit: "ratio", target: atMost(4),
		source: benchmark{pkg: "./injector/xdp", name: "BenchmarkLiveFrames", unit: "mirror/bare"}},
	{name: "XDP injector, the program alone, CPU time", unit: "ns/packet", target: atMost(120),
		source: benchmark{pkg: "./injector/xdp", name: "BenchmarkProgram/mirror", unit: "ns/packet"},
		peer: &peer{"a program that only redirects",
			benchmark{pkg: "./injector/xdp", name: "BenchmarkProgram/bare", unit: "ns/packet"}}},
	{name: "the same for a packet that meets an event, looked up in two tables", unit: "ns/packet",
		source: benchmark{pkg: "./injector/xdp", name: "BenchmarkProgram/event", unit: "ns/packet"}},
	{name: "XDP injector, veth to veth from a packet socket, mirrored: packets lost", unit: "packets", target: atMost(0),
		source: benchmark{pkg: "./injector/xdp", name: "BenchmarkVeth", unit: "lost"}},
	{name: "the same: what the sender reaches", unit: "packets/s",
		source: benchmark{pkg: "./injector/xdp", name: "BenchmarkVeth", unit: "packets/s"}},
	{name: "dumper, 1 M copies of 128 B from the kernel itself: cores at 1 M packets/s", unit: "cores",
		target: atMost(0.5),
		source: benchmark{pkg: "./dumper/live", name: "BenchmarkRecorder", unit: "cores-at-1M/s"},
		peer: &peer{"as fast as the sender can",
			benchmark{pkg: "./dumper/live", name: "BenchmarkRecorderFlatOut", unit: "cores-at-1M/s"}}},
	{name: "the same: packets lost", unit: "packets", target: atMost(0),
		source: benchmark{pkg: "./dumper/live", name: "BenchmarkRecorder", unit: "lost"}},
	{name: "the same: what the sender reaches", unit: "packets/s",
		source: benchmark{pkg: "./dumper/live", name: "BenchmarkRecorder", unit: "packets/s"}},
	{name: "the same: what the kernel takes to fill the ring, in the sender's time", unit: "ns/packet",
		source: benchmark{pkg: "./dumper/live", name: "BenchmarkRecorder", unit: "sender-ns/packet"}},
	{name: "L1: what injection and mirroring add to the mean completion time", unit: "%", target: atMost(5),
		source: benchmark{pkg: "./cmd/candela", name: "BenchmarkOverhead", unit: "overhead-%", cpus: 2}},
	{name: "packet ring of blocks (TPACKET_V3), reading alone", unit: "ns/packet",
		source: benchmark{pkg: "./link", name: "BenchmarkRing", unit: "ns/packet"}},
	{name: "afpacket injector with mirroring, one core", unit: "packets/s", target: atLeast(300e3),
		source: benchmark{pkg: "./injector/afpacket", name: "BenchmarkMirrored", unit: "packets/cpu-s"},
		peer: &peer{"sent by packet sockets",
			benchmark{pkg: "./injector/afpacket", name: "BenchmarkMirroredPacketSockets", unit: "packets/cpu-s"}}},
}
