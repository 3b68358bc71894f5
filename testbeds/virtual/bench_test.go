package virtual

import (
	"net/netip"
	"testing"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator"
	"candela.dev/candela/injector"
	"candela.dev/candela/packet"
	"candela.dev/candela/testbeds"
)

// benchSpec is 64 connections of back-to-back 10-packet WRITEs at 100 Gb/s.
func benchSpec(messages int) testbeds.Spec {
	host := func(name, ip string) testbeds.Host {
		return testbeds.Host{
			Name: name, IPs: []netip.Addr{netip.MustParseAddr(ip)}, Profile: "spec", CNPPacing: "per-port", ECN: packet.ECT0,
			Rate: 100 * clock.Gbps, Propagation: 500 * clock.Nanosecond,
		}
	}
	spec := testbeds.Spec{
		Seed: 1, Hosts: [2]testbeds.Host{host("requester", "10.0.0.2"), host("responder", "10.0.0.1")},
		Switch:   testbeds.Switch{Latency: 400 * clock.Nanosecond},
		Quiesce:  10 * clock.Millisecond,
		Deadline: 100 * clock.Second,
	}
	const connections = 64
	for range connections {
		spec.Connections = append(spec.Connections, testbeds.Connection{
			IPs: [2]netip.Addr{spec.Hosts[0].IPs[0], spec.Hosts[1].IPs[0]},
			Traffic: [2]generator.Traffic{{Verbs: []generator.Verb{generator.Write}, Messages: messages, MessageSize: 10240,
				MTU: 1024, TxDepth: 4}},
			MTU: 1024, AckTimeout: 14, RetryCount: 7, RNRRetry: 7, MinRNRTimer: 12,
		})
	}
	for _, name := range []string{"a", "b"} {
		spec.Dumpers = append(spec.Dumpers, testbeds.Dumper{Name: name, Weight: 1, Rate: 200 * clock.Gbps, Cores: 4})
	}
	return spec
}

// prepare programs the switch as in a run.
func prepare(b *testing.B, bed *Testbed) *injector.Client {
	b.Helper()
	conns, err := bed.Prepare(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	access, err := bed.Injector(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	client, err := injector.Connect(b.Context(), access.Conn,
		injector.Config{Target: access.Target, DeviceID: access.DeviceID, ElectionLow: 1})
	if err != nil {
		b.Fatal(err)
	}
	var setup injector.Setup
	for _, p := range access.Forwarding {
		setup.Forwarding = append(setup.Forwarding, injector.Forwarding{MAC: p.MAC, Port: p.Number})
		setup.FloodPorts = append(setup.FloodPorts, p.Number)
	}
	for _, m := range access.Mirrors {
		setup.Mirrors = append(setup.Mirrors, injector.Mirror{Port: m.Number, Weight: m.Weight})
	}
	if _, err := client.Program(b.Context(), setup, conns, nil); err != nil {
		b.Fatal(err)
	}
	return client
}

func benchmarkRun(b *testing.B, capture bool) {
	const messages = 500
	hops, data := uint64(0), 0
	for b.Loop() {
		b.StopTimer()
		bed, err := New(benchSpec(messages))
		if err != nil {
			b.Fatal(err)
		}
		client := prepare(b, bed)
		if capture {
			if err := bed.StartDumpers(b.Context(), b.TempDir()); err != nil {
				b.Fatal(err)
			}
			if err := client.OpenGate(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
		b.StartTimer()
		report, err := bed.Run(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		if capture {
			if _, err := bed.StopDumpers(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
		b.StopTimer()
		for _, s := range report.Streams {
			if s.Completed != messages {
				b.Fatalf("connection %d completed %d of %d messages", s.Connection, s.Completed, messages)
			}
		}
		hops += bed.Hops()
		data += len(report.Streams) * messages * 10
		client.Close()
		if err := bed.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
	seconds := b.Elapsed().Seconds()
	b.ReportMetric(float64(hops)/seconds, "hops/s")
	b.ReportMetric(float64(data)/seconds, "data-packets/s")
}

// BenchmarkVirtualTestbed moves packets through hosts, links and the injector pipeline with the mirror gate closed.
func BenchmarkVirtualTestbed(b *testing.B) { benchmarkRun(b, false) }

// BenchmarkVirtualTestbedCapture also mirrors every packet and writes it to shards.
func BenchmarkVirtualTestbedCapture(b *testing.B) { benchmarkRun(b, true) }
