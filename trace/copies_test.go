package trace

import (
	"slices"
	"testing"

	"candela.dev/candela/packet"
)

// TestACopyMadeBetweenTwoTapsIsNotSent has a frame that is in the second capture once more. With the same
// identification a device in between copied it; with another one the host retransmitted it, and the first tap missed
// that.
func TestACopyMadeBetweenTwoTapsIsNotSent(t *testing.T) {
	const frames, repeated, ids = 40, 20, 100
	numbered := func(psn int, id uint16) written {
		p := data(psn)
		p.IP.ID = id
		frame := p.AppendTo(nil)
		return written{int64(psn+1) * 10_000, frame, len(frame)}
	}
	var once []written
	for i := range frames {
		once = append(once, numbered(i, uint16(ids+i)))
	}
	again := func(id uint16) []written {
		w := numbered(repeated, id)
		w.TimeNS += 4_000
		return slices.Insert(slices.Clone(once), repeated+1, w)
	}
	later := func(list []written) []written {
		list = slices.Clone(list)
		for i := range list {
			list[i].TimeNS += 500
		}
		return list
	}
	type counts struct{ sent, passed, missed, copied int64 }
	const copied = "copies of frames appear"
	for name, tc := range map[string]struct {
		first, second []written
		want          counts
		upstream      bool // the first capture
		reason        string
	}{
		"copied":                {once, later(again(ids + repeated)), counts{frames, frames + 1, 0, 1}, true, copied},
		"copied, files swapped": {later(again(ids + repeated)), once, counts{frames, frames + 1, 0, 1}, false, copied},
		"sent twice, seen by both": {
			again(ids + repeated), later(again(ids + repeated)), counts{frames + 1, frames + 1, 0, 0}, true, "",
		},
		"copied before the first starts": {
			once[repeated+1:], later(again(ids + repeated)), counts{frames - repeated - 1, frames + 1, repeated + 1, 1},
			true, asGiven,
		},
		"retransmitted, missed by the first": {
			once, later(again(7)), counts{frames, frames + 1, 1, 0}, true, asGiven,
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := Options{SameClock: true}
			if tc.reason == asGiven {
				o.Placement = PlacementBracket
			}
			checked, report, err := CheckPair(t.Context(), memorySource("a.pcap", pcapOf(t, tc.first)),
				memorySource("b.pcap", pcapOf(t, tc.second)), o)
			if err != nil {
				t.Fatal(err)
			}
			got := counts{report.Sent, report.Passed, report.Missed, report.Copied}
			w := &report.Ways[0]
			if got != tc.want || w.FirstUpstream != tc.upstream || tc.reason != "" && w.Reason != tc.reason {
				t.Errorf("%+v, %v", got, w)
			}
			sent, passed := map[uint64]int{}, map[uint64]int{}
			err = checked.ForEach(t.Context(), func(r *Record) error {
				if r.Has(Sent) {
					sent[r.ID]++
				}
				if r.Has(Passed) {
					passed[r.ID]++
				}
				return nil
			})
			if err != nil || int64(len(sent)) != tc.want.sent+tc.want.missed || int64(len(passed)) != tc.want.passed {
				t.Errorf("%v: %d records sent, %d passed", err, len(sent), len(passed))
			}
		})
	}
}

// TestOnlyTheLatestFramesAreRemembered fills the memory with frames of which one is there twice.
func TestOnlyTheLatestFramesAreRemembered(t *testing.T) {
	frame := func(psn int) *observation {
		return &observation{rec: Record{PSN: packet.PSN(psn), Opcode: packet.WriteMiddle}, ipID: uint16(psn)}
	}
	var f passedFrames
	f.add(frame(0))
	f.add(frame(1))
	f.add(frame(0))
	for i := 2; i < rememberedFrames+1; i++ {
		f.add(frame(i)) // the last two replace the first frames
	}
	if !f.has(frame(0)) || f.has(frame(1)) || !f.has(frame(2)) {
		t.Errorf("remembered: the frame that is there twice %t, the second %t, the third %t", f.has(frame(0)),
			f.has(frame(1)), f.has(frame(2)))
	}
	for i := range rememberedFrames {
		f.add(frame(rememberedFrames + i))
	}
	other := frame(rememberedFrames)
	other.ipID++
	if f.has(frame(0)) || f.has(frame(2)) || !f.has(frame(rememberedFrames)) || f.has(other) ||
		len(f.seen) != rememberedFrames || len(f.ring) != rememberedFrames {
		t.Errorf("%d frames are remembered", len(f.seen))
	}
}
