package forwarding_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/forwarding"
	"candela.dev/candela/clock"
	"candela.dev/candela/trace"
)

// view is two switches whose family makes packets or does not. A copy of what is dropped for reason 1 goes on.
type view struct {
	analyzers.SwitchView
	makes bool
}

func (view) Switches() int               { return 2 }
func (view) SwitchName(int) string       { return "sw1" }
func (view) FlowOf(*trace.SwitchTap) int { return 1 }
func (v view) Makes(int) bool            { return v.makes }
func (view) Reason(_ int, code uint8) analyzers.DropReason {
	return analyzers.DropReason{Copied: code == 1}
}
func (view) Decisions() []trace.DecisionKind {
	return []trace.DecisionKind{{Name: "queued"}, {Name: "made", Copy: true, Causes: []string{"request"}}}
}

const (
	enter, leave, drop = trace.Entered, trace.Left, trace.Dropped
	trimmed, returned  = trace.Trimmed, trace.Returned
)

// packet is one of raw UDP.
func packet(at trace.SwitchStage, number uint64, size int32, flags trace.PacketFlags) trace.SwitchTap {
	return trace.SwitchTap{Time: clock.Time(2400 * clock.Nanosecond), Stage: at, Protocol: trace.ProtocolRaw, Src: 1,
		Dst:  2,
		Flow: 7, ID: number, Number: number, Size: size, Flags: flags}
}

func rules(t rapid.TB, a analyzers.SwitchJudge) (found []string) {
	r, err := a.Finish()
	if err != nil {
		t.Fatal(err)
	}
	if t, ok := t.(*testing.T); ok {
		book.Add(t, r.Findings)
	}
	for _, f := range r.Findings {
		found = append(found, f.Rule)
	}
	return found
}

func TestWhatLeavesHasComeIn(t *testing.T) {
	back := packet(leave, 1, 64, trimmed|returned)
	back.Src, back.Dst = back.Dst, back.Src
	passes, lost := back, back
	passes.Stage, lost.Stage = enter, drop
	opposite, delivered := packet(enter, 1, 100, 0), packet(leave, 1, 100, 0)
	opposite.Src, opposite.Dst, delivered.Src, delivered.Dst = 2, 1, 2, 1
	elsewhere := packet(leave, 1, 1500, 0)
	elsewhere.Switch = 1
	other := packet(leave, 1, 1500, 0)
	other.Dst = 3
	for _, c := range []struct {
		name string
		taps []trace.SwitchTap
		want []string
	}{
		{"a packet comes and leaves", []trace.SwitchTap{packet(enter, 1, 1500, 0), packet(leave, 1, 1500, 0)}, nil},
		{"it stays", []trace.SwitchTap{packet(enter, 1, 1500, 0)}, nil},
		{"it is dropped", []trace.SwitchTap{packet(enter, 1, 1500, 0), packet(drop, 1, 1500, 0)}, nil},
		{"it is trimmed", []trace.SwitchTap{packet(enter, 1, 1500, 0), packet(leave, 1, 64, trimmed)}, nil},
		{"it is returned as a header", []trace.SwitchTap{packet(enter, 1, 1500, 0), back}, nil},
		{"it is returned while a packet of the other direction has its number",
			[]trace.SwitchTap{packet(enter, 1, 1500, 0), opposite, back, delivered}, nil},
		{"it is returned, and leaves, too", []trace.SwitchTap{packet(enter, 1, 1500, 0), opposite, back,
			packet(leave, 1, 1500, 0)}, []string{forwarding.UnmatchedPacket}},
		{"it was returned elsewhere", []trace.SwitchTap{passes, opposite, back, delivered}, nil},
		{"it is returned, the header is dropped, and it leaves", []trace.SwitchTap{packet(enter, 1, 1500, 0), lost,
			packet(leave, 1, 1500, 0)}, []string{forwarding.UnmatchedPacket}},
		{"it is dropped and its copy leaves trimmed",
			[]trace.SwitchTap{packet(enter, 1, 1500, 0), {Stage: drop, Protocol: trace.ProtocolRaw, Src: 1, Dst: 2, Flow: 7,
				Number: 1, Size: 1500, Reason: 1}, packet(leave, 1, 64, trimmed)}, nil},
		{"it leaves twice", []trace.SwitchTap{packet(enter, 1, 1500, 0), packet(leave, 1, 1500, 0),
			packet(leave, 1, 1500, 0)}, []string{forwarding.UnmatchedPacket}},
		{"its header leaves twice", []trace.SwitchTap{packet(enter, 1, 1500, 0), packet(leave, 1, 64, trimmed),
			packet(leave, 1, 64, trimmed)},
			[]string{forwarding.UnmatchedHeader}},
		{"it leaves though it was dropped",
			[]trace.SwitchTap{packet(enter, 1, 1500, 0), packet(drop, 1, 1500, 0), packet(leave, 1, 1500, 0)},
			[]string{forwarding.UnmatchedPacket}},
		{"it leaves by another switch", []trace.SwitchTap{packet(enter, 1, 1500, 0), elsewhere},
			[]string{forwarding.UnmatchedPacket}},
		{"it leaves for another host", []trace.SwitchTap{packet(enter, 1, 1500, 0), other},
			[]string{forwarding.UnmatchedPacket}},
		{"it grows", []trace.SwitchTap{packet(enter, 1, 1500, 0), packet(leave, 1, 1501, 0)},
			[]string{forwarding.PacketChanged}},
		{"it shrinks and is not marked as trimmed", []trace.SwitchTap{packet(enter, 1, 1500, 0), packet(leave, 1, 64, 0)},
			[]string{forwarding.PacketChanged}},
		{"the switch sends one of its own like it", []trace.SwitchTap{packet(enter, 1, 1500, 0),
			packet(leave, 1, 64, trace.Made), packet(leave, 1, 1500, 0)}, nil},
		{"another switch made one like it", []trace.SwitchTap{packet(enter, 1, 1500, 0), packet(enter, 1, 64, trace.Made),
			packet(leave, 1, 64, trace.Made), packet(leave, 1, 1500, 0)}, nil},
		{"what another switch made grows", []trace.SwitchTap{packet(enter, 1, 64, trace.Made),
			packet(leave, 1, 65, trace.Made)}, []string{forwarding.PacketChanged}},
		{"a message between pipelines is none of its packets", []trace.SwitchTap{packet(leave, 1, 64, trace.Notification)},
			nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, err := forwarding.New(view{makes: true})
			if err != nil {
				t.Fatal(err)
			}
			for i := range c.taps {
				a.Observe(&c.taps[i])
			}
			if found := rules(t, a); !slices.Equal(found, c.want) {
				t.Errorf("found %v, want %v", found, c.want)
			}
		})
	}
}

func TestAMadePacketIsNoInventionIfItHasACause(t *testing.T) {
	caused, uncaused, about := trace.Decision{Kind: 1, Packet: 5}, trace.Decision{Kind: 1, Packet: 5, Cause: 1},
		trace.Decision{Packet: 5}
	for _, c := range []struct {
		name    string
		makes   bool
		decided []trace.Decision
		flags   trace.PacketFlags
		want    []string
	}{
		{"its family makes packets, and there are no records", true, nil, trace.Made, nil},
		{"a record names its cause", true, []trace.Decision{caused}, trace.Made, nil},
		{"its family makes none", false, nil, trace.Made, []string{forwarding.MadeUnasked}},
		{"its family makes none, whatever it records", false, []trace.Decision{caused}, trace.Made,
			[]string{forwarding.MadeUnasked}},
		{"its record names no cause", true, []trace.Decision{uncaused}, trace.Made, []string{forwarding.MadeUnasked}},
		{"its record is not about what was made", true, []trace.Decision{about}, trace.Made,
			[]string{forwarding.MadeUnasked}},
		{"the record is of another packet", true, []trace.Decision{{Kind: 1, Packet: 6}}, trace.Made,
			[]string{forwarding.MadeUnasked}},
		{"it was not made", true, []trace.Decision{caused}, 0, []string{forwarding.UnmatchedPacket}},
		{"it is a copy of one that was", true, []trace.Decision{caused}, trace.Made | trace.Mirrored,
			[]string{forwarding.UnmatchedPacket}},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, err := forwarding.New(view{makes: c.makes})
			if err != nil {
				t.Fatal(err)
			}
			for i := range c.decided {
				a.Decide(&c.decided[i])
			}
			p := packet(leave, 5, 100, c.flags)
			a.Observe(&p)
			// At the next switch it is a packet like any other, which leaves once.
			p.Switch, p.Stage = 1, enter
			a.Observe(&p)
			p.Stage = leave
			a.Observe(&p)
			if found := rules(t, a); !slices.Equal(found, c.want) {
				t.Errorf("found %v, want %v", found, c.want)
			}
		})
	}
}

func TestNothingOfBeforeAnOutageMayLeaveAfterIt(t *testing.T) {
	a, err := forwarding.New(view{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range uint64(2) {
		p := packet(enter, i, 1500, 0)
		p.Switch = int(i)
		a.Observe(&p)
	}
	a.Stopping(1, 0)
	a.Started(2, 0)
	for i := range uint64(2) {
		p := packet(leave, i, 1500, 0)
		p.Switch = int(i)
		a.Observe(&p)
	}
	if found := rules(t, a); !slices.Equal(found, []string{forwarding.UnmatchedPacket}) {
		t.Errorf("found %v, want the packet of switch 0 alone", found)
	}
}

// A switch that forwards, drops and trims each packet that arrived, in any order, is not blamed; one that sends one
// packet more is.
func TestAnyOrderOfCorrectForwardingPasses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, err := forwarding.New(view{})
		if err != nil {
			t.Fatal(err)
		}
		var inside []trace.SwitchTap
		for range rapid.IntRange(0, 100).Draw(t, "steps") {
			if len(inside) == 0 || rapid.Bool().Draw(t, "arrives") {
				p := packet(enter, uint64(rapid.IntRange(0, 3).Draw(t, "number")),
					int32(rapid.SampledFrom([]int{100, 1500}).Draw(t, "size")), 0)
				p.Switch = rapid.IntRange(0, 1).Draw(t, "switch")
				inside = append(inside, p)
				a.Observe(&p)
				continue
			}
			i := rapid.IntRange(0, len(inside)-1).Draw(t, "which")
			p := inside[i]
			inside = slices.Delete(inside, i, i+1)
			p.Stage = rapid.SampledFrom([]trace.SwitchStage{leave, drop}).Draw(t, "fate")
			a.Observe(&p)
		}
		extra := rapid.Bool().Draw(t, "one more")
		if extra {
			p := packet(leave, 99, 1500, 0)
			a.Observe(&p)
		}
		if found := rules(t, a); len(found) != 0 && !extra || len(found) != 1 && extra {
			t.Errorf("found %v", found)
		}
	})
}
