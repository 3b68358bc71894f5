package rdma

import (
	"testing"

	"candela.dev/candela/clock"
	"candela.dev/candela/packet"
)

// trimmedScript returns a script whose NIC reacts to trimmed headers if reacts is set.
func trimmedScript(t *testing.T, reacts bool, bugs Bugs) *script {
	t.Helper()
	s := newScript(t, reliable(), bugs, NotificationPoint{})
	s.nic.profile.TrimReaction, s.nic.profile.TrimDSCP, s.nic.profile.TrimLatency = reacts, DefaultTrimDSCP,
		300*clock.Nanosecond
	return s
}

// header returns the request in words, trimmed with a DSCP.
func (s *script) header(words []string, dscp uint8, flags packet.TrimFlags) packet.Packet {
	p := s.packet(words)
	p.Trim(60, dscp, flags|packet.TrimSetDSCP)
	return p
}

// The NIC's action on a header depends on TrimReaction, on the DSCP and on the expected PSN, not on the length fields.
func TestTrimmedHeadersAreNakedAtOnceByNICsThatReact(t *testing.T) {
	full := []string{"WRITE_FIRST", "0", "len=1024", "dma=2048"}
	for _, c := range []struct {
		name    string
		reacts  bool
		dscp    uint8
		words   []string
		nak     bool
		trimmed uint64
		damaged uint64
	}{
		{"the expected packet", true, DefaultTrimDSCP, full, true, 1, 0},
		{"a packet behind a gap", true, DefaultTrimDSCP, []string{"WRITE_FIRST", "5", "len=1024", "dma=2048"}, true, 1, 0},
		{"a duplicate", true, DefaultTrimDSCP, []string{"WRITE_FIRST", "-1", "len=1024", "dma=2048"}, false, 1, 0},
		{"without the mark", true, 5, full, false, 0, 1},
		{"without a reaction", false, DefaultTrimDSCP, full, false, 0, 1},
	} {
		for flags := range packet.TrimFlags(4) {
			s := trimmedScript(t, c.reacts, Bugs{})
			p := s.header(c.words, c.dscp, flags<<1)
			s.nic.HandlePacket(0, &p)
			got := s.nic.Counters()
			if got.TrimmedReceived != c.trimmed || got.ICRCErrors != c.damaged || got.RxPackets != 1 {
				t.Errorf("%s, flags %d: counters %+v", c.name, flags, got)
			}
			var out packet.Packet
			early := s.nic.Poll(clock.Time(0).Add(299*clock.Nanosecond), &out)
			answered := s.nic.Poll(clock.Time(0).Add(300*clock.Nanosecond), &out)
			if early || answered != c.nak {
				t.Errorf("%s, flags %d: answered %t before and %t after the latency, want %t", c.name, flags, early, answered,
					c.nak)
			}
			if answered && (out.AETH.Syndrome != packet.SyndromeNakSequence || out.BTH.PSN != s.qp.remote.IPSN) {
				t.Errorf("%s, flags %d: answer %v psn %v", c.name, flags, out.AETH.Syndrome, out.BTH.PSN)
			}
		}
	}
}

// A switch may set the DSCP of packets that are too short to be trimmed: they are whole.
func TestAWholePacketWithTheMarkIsDelivered(t *testing.T) {
	s := trimmedScript(t, true, Bugs{})
	p := s.packet([]string{"WRITE_ONLY", "0", "len=4", "dma=4", "ackreq"})
	p.SetDSCP(DefaultTrimDSCP)
	s.nic.HandlePacket(0, &p)
	if c := s.nic.Counters(); c.TrimmedReceived != 0 || s.qp.resp.msn != 1 {
		t.Errorf("counters %+v, %d messages received", c, s.qp.resp.msn)
	}
}
