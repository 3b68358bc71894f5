package main

import (
	"fmt"
	"net/netip"
	"testing"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator"
	"candela.dev/candela/injector"
	"candela.dev/candela/testbeds"
	"candela.dev/candela/testbeds/virtual"
)

// incast is WRITE traffic at 100 Gb/s on 64 QPs, in messages of ten packets, for which the spec profile sends one ACK
// each.
func incast(messages, dumpers int) testbeds.Spec {
	addr := [2]netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")}
	spec := testbeds.Spec{
		Seed: 1, Quiesce: 10 * clock.Millisecond, Deadline: 10 * clock.Second,
		Switch: testbeds.Switch{Latency: 400 * clock.Nanosecond, EgressBuffer: 16 << 20},
	}
	for i := range spec.Hosts {
		spec.Hosts[i] = testbeds.Host{
			Name: fmt.Sprintf("host-%d", i), IPs: addr[i : i+1], Profile: "spec", CNPPacing: "per-port", HopLimit: 64,
			Rate: 100 * clock.Gbps, Propagation: 250 * clock.Nanosecond,
		}
	}
	for range 64 {
		c := testbeds.Connection{IPs: addr, MTU: 1024, AckTimeout: 14, RetryCount: 7, RNRRetry: 7}
		c.Traffic[testbeds.Requester] = generator.Traffic{
			Verbs: []generator.Verb{generator.Write}, Messages: messages, MessageSize: 10240, MTU: 1024, TxDepth: 2,
		}
		spec.Connections = append(spec.Connections, c)
	}
	for i := range dumpers {
		spec.Dumpers = append(spec.Dumpers, testbeds.Dumper{
			Name: fmt.Sprintf("dumper-%d", i), Weight: 1, Rate: 400 * clock.Gbps, Cores: 1, PPSPerCore: 100_000_000,
			Buffer: 16 << 20,
		})
	}
	return spec
}

// ready builds a testbed whose injector knows the connections; unless shards is empty the dumpers write there.
func ready(b *testing.B, spec testbeds.Spec, shards string) *virtual.Testbed {
	b.Helper()
	bed, err := virtual.New(spec)
	if err != nil {
		b.Fatal(err)
	}
	if err := programInjector(b, bed, shards); err != nil {
		b.Fatal(err)
	}
	return bed
}

func programInjector(b *testing.B, bed *virtual.Testbed, shards string) error {
	ctx := b.Context()
	conns, err := bed.Prepare(ctx)
	if err != nil {
		return err
	}
	access, err := bed.Injector(ctx)
	if err != nil {
		return err
	}
	client, err := injector.Connect(ctx, access.Conn,
		injector.Config{Target: access.Target, DeviceID: access.DeviceID, ElectionLow: 1})
	if err != nil {
		return err
	}
	b.Cleanup(client.Close)
	var setup injector.Setup
	for _, p := range access.Forwarding {
		setup.Forwarding = append(setup.Forwarding, injector.Forwarding{MAC: p.MAC, Port: p.Number})
	}
	for _, m := range access.Mirrors {
		setup.Mirrors = append(setup.Mirrors, injector.Mirror{Port: m.Number, Weight: m.Weight})
	}
	if _, err := client.Program(ctx, setup, conns, nil); err != nil {
		return err
	}
	if shards == "" {
		return nil
	}
	if err := bed.StartDumpers(ctx, shards); err != nil {
		return err
	}
	return client.OpenGate(ctx)
}

// benchmarkVirtual simulates whole runs and times their traffic phase alone.
func benchmarkVirtual(b *testing.B, messages, dumpers int) (hops, dataPackets float64) {
	spec := incast(messages, dumpers)
	shards := ""
	if dumpers > 0 {
		shards = b.TempDir() // every run overwrites the last one's: gigabytes of unwritten pages would slow down the kernel
	}
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		bed := ready(b, spec, shards)
		b.StartTimer()
		report, err := bed.Run(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		if dumpers > 0 {
			if _, err := bed.StopDumpers(b.Context()); err != nil { // writing to the end is part of capturing
				b.Fatal(err)
			}
		}
		b.StopTimer()
		if want := int64(len(spec.Connections) * messages * 10240); report.Bytes != want {
			b.Fatalf("%d bytes delivered, want %d", report.Bytes, want)
		}
		hops += float64(bed.Hops())
		dataPackets += float64(len(spec.Connections) * messages * packetsPerMessage)
		if err := bed.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
	return hops, dataPackets
}

// BenchmarkVirtualCaptureOff: every packet crosses two links, with the injector's pipeline between.
func BenchmarkVirtualCaptureOff(b *testing.B) {
	hops, dataPackets := benchmarkVirtual(b, 500, 0)
	b.ReportMetric(hops/b.Elapsed().Seconds(), "hops/s")
	b.ReportMetric(dataPackets/b.Elapsed().Seconds(), "packets/s")
}

// BenchmarkVirtualCaptured: the same with every packet mirrored to one of two dumpers and written as pcap, whole.
func BenchmarkVirtualCaptured(b *testing.B) {
	_, dataPackets := benchmarkVirtual(b, 50, 2)
	b.ReportMetric(dataPackets/b.Elapsed().Seconds(), "packets/s")
}
