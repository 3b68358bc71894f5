package gbn

import (
	"testing"

	"candela.dev/candela/packet"
)

func TestRequestsAreValidByTheirPlaceTheirLengthAndTheirKey(t *testing.T) {
	const mtu = 1024
	write := packet.VerbWrite
	for _, c := range []struct {
		name string
		open packet.Verb
		left int64
		a    arrival
		want packet.Syndrome
	}{
		{"a WRITE of one packet", packet.VerbNone, 0, arrival{op: packet.WriteOnly, length: 8, payload: 8}, 0},
		{"a WRITE of no bytes", packet.VerbNone, 0, arrival{op: packet.WriteOnly}, 0},
		{"the first of two", packet.VerbNone, 0, arrival{op: packet.WriteFirst, length: mtu + 1, payload: mtu}, 0},
		{"a first that holds everything already", packet.VerbNone, 0,
			arrival{op: packet.WriteFirst, length: mtu, payload: mtu}, packet.SyndromeNakInvalid},
		{"the last of two", write, 1, arrival{op: packet.WriteLast, payload: 1}, 0},
		{"a last that leaves a byte", write, 2, arrival{op: packet.WriteLast, payload: 1}, packet.SyndromeNakInvalid},
		{"a last of no bytes", write, 0, arrival{op: packet.WriteLast}, packet.SyndromeNakInvalid},
		{"a middle that is not full", write, 4 * mtu, arrival{op: packet.WriteMiddle, payload: mtu - 4},
			packet.SyndromeNakInvalid},
		{"a packet above the MTU", packet.VerbNone, 0, arrival{op: packet.SendOnly, payload: mtu + 4},
			packet.SyndromeNakInvalid},
		{"a middle of nothing", packet.VerbNone, 0, arrival{op: packet.WriteMiddle, payload: mtu}, packet.SyndromeNakInvalid},
		{"a beginning inside a message", write, 4 * mtu, arrival{op: packet.ReadRequest, length: 8},
			packet.SyndromeNakInvalid},
		{"a SEND inside a WRITE", write, 4 * mtu, arrival{op: packet.SendMiddle, payload: mtu}, packet.SyndromeNakInvalid},
		{"the longest READ", packet.VerbNone, 0, arrival{op: packet.ReadRequest, length: 1 << 31}, 0},
		{"a READ of one byte more", packet.VerbNone, 0, arrival{op: packet.ReadRequest, length: 1<<31 + 1},
			packet.SyndromeNakInvalid},
		{"a READ with payload", packet.VerbNone, 0, arrival{op: packet.ReadRequest, length: 8, payload: 8},
			packet.SyndromeNakInvalid},
		{"another key", packet.VerbNone, 0, arrival{op: packet.ReadRequest, length: 8, foreignKey: true},
			packet.SyndromeNakAccess},
		{"another key of an atomic", packet.VerbNone, 0, arrival{op: packet.FetchAdd, foreignKey: true},
			packet.SyndromeNakAccess},
		{"another key where no byte is read", packet.VerbNone, 0, arrival{op: packet.ReadRequest, foreignKey: true}, 0},
		{"another key out of place", write, 8, arrival{op: packet.ReadRequest, length: 8, foreignKey: true},
			packet.SyndromeNakInvalid},
	} {
		st := receipt{open: c.open, left: c.left}
		if got := st.validate(&c.a, mtu); got != c.want {
			t.Errorf("%s: got %#x, want %#x", c.name, uint8(got), uint8(c.want))
		}
	}
}
