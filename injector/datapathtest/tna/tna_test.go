package tna_test

import (
	"encoding/binary"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"candela.dev/candela/injector/datapathtest"
	"candela.dev/candela/injector/datapathtest/tna"
	"candela.dev/candela/injector/p4"
	"candela.dev/candela/packet"
	"candela.dev/candela/runtimetest"
)

var sources = os.DirFS("../../p4")

// differences of the program from the pipeline in Go, besides what seen leaves out.
var differences = datapathtest.Differences{CopyPorts: true, TxBytes: true, Turns: true}

// seen reports whether the program judges a frame as the pipeline does. Hardware does not see how long a frame is: of a
// RoCE packet that IP or UDP length, or the frame's end, cut through headers it sees the headers that the parser finds.
// It computes the checksum of an IPv4 header that it edits anew, and has no IPv4 options.
func seen(frame []byte) bool {
	l3 := packet.EthernetLen
	if len(frame) < l3+packet.IPv4Len+packet.UDPLen {
		return true // no RoCE for anyone
	}
	if frame[12] == 0x81 && frame[13] == 0 {
		l3 += packet.VLANLen
	}
	ip := frame[l3:]
	var udp []byte
	var length int // of what the IP header announces
	switch kind := binary.BigEndian.Uint16(frame[l3-2:]); {
	case kind == 0x0800 && len(ip) >= packet.IPv4Len && ip[9] == 17 && ip[0]>>4 == 4:
		if ip[0]&0xf > 5 {
			return false
		}
		if ip[6]&0x3f != 0 || ip[7] != 0 {
			return true // a fragment is no RoCE for anyone
		}
		var sum uint32
		for i := 0; i < packet.IPv4Len; i += 2 {
			sum += uint32(binary.BigEndian.Uint16(ip[i:]))
		}
		if sum>>16+sum&0xffff != 0xffff {
			return false
		}
		udp, length = ip[packet.IPv4Len:], int(binary.BigEndian.Uint16(ip[2:]))
	case kind == 0x86dd && len(ip) >= packet.IPv6Len && ip[6] == 17:
		udp, length = ip[packet.IPv6Len:], packet.IPv6Len+int(binary.BigEndian.Uint16(ip[4:]))
	default:
		return true
	}
	if len(udp) < packet.UDPLen || binary.BigEndian.Uint16(udp[2:]) != packet.Port {
		return true
	}
	return length == len(ip) && int(binary.BigEndian.Uint16(udp[4:])) == len(udp)
}

// fit returns what of a sequence a switch can be asked: frames that it sees as the pipeline does, and entries that it
// offers.
func fit(q datapathtest.Sequence, info *p4.Info) (out datapathtest.Sequence, frames int) {
	lacks := func(e datapathtest.Entry) bool {
		t := info.Table(e.Table)
		return t == nil || t.Offers(e.Action.ID) == nil
	}
	out.Name = q.Name
	for _, s := range q.Steps {
		s.Entries = slices.DeleteFunc(slices.Clone(s.Entries), lacks)
		s.Remove = slices.DeleteFunc(slices.Clone(s.Remove), lacks)
		s.In = slices.DeleteFunc(slices.Clone(s.In), func(f datapathtest.Frame) bool { return !seen(f.Data) })
		frames += len(s.In)
		out.Steps = append(out.Steps, s)
	}
	return out, frames
}

// suite is what every datapath is asked, and n random sequences. It returns the first difference from the pipeline.
func suite(s datapathtest.Memory, info *p4.Info, n int) (frames int, err error) {
	sequences := append(datapathtest.TrimEdges(), datapathtest.Sequences()...)
	for _, c := range datapathtest.Cases() {
		sequences = append(sequences,
			datapathtest.Sequence{Name: c.Name, Steps: []datapathtest.Step{{Entries: c.Entries, In: c.In}}})
	}
	for _, c := range datapathtest.Matrix() {
		sequences = append(sequences, datapathtest.Sequence{Name: c.Addressing + ", " + c.Action,
			Steps: []datapathtest.Step{{Entries: c.Case.Entries, In: c.Case.In}}})
	}
	for seed := range n {
		if !runtimetest.Sampled(seed) {
			continue
		}
		sequences = append(sequences, datapathtest.Wide(uint64(seed)), datapathtest.Random(uint64(seed)))
	}
	for _, q := range sequences {
		q, n := fit(q, info)
		if err := q.Run(s, differences); err != nil {
			return frames, err
		}
		frames += n
	}
	return frames, nil
}

func TestTheProgramForTofinoDecidesAsThePipelineDoes(t *testing.T) {
	for _, generation := range []int{1, 2} {
		s, err := tna.New(sources, generation)
		if err != nil {
			t.Fatal(err)
		}
		const random = 30
		frames, err := suite(s, s.Info, random)
		if err != nil {
			t.Errorf("Tofino %d: %v", generation, err)
		}
		t.Logf("Tofino %d: %d frames", generation, frames)
		if frames < 500 {
			t.Errorf("Tofino %d saw %d frames only", generation, frames)
		}
	}
}

func TestThePassesOfHardwareDecideOnBMv2AsThePipelineDoes(t *testing.T) {
	s, err := tna.NewBMv2(sources)
	if err != nil {
		t.Fatal(err)
	}
	frames, err := suite(s, s.Info, 30)
	if err != nil {
		t.Error(err)
	}
	t.Logf("%d frames", frames)
}

// overlay is the sources with one file changed.
func overlay(t *testing.T, file, old, now string) fs.FS {
	t.Helper()
	names, err := fs.Glob(sources, "*.p4")
	if err != nil {
		t.Fatal(err)
	}
	out := fstest.MapFS{}
	for _, name := range names {
		text, err := fs.ReadFile(sources, name)
		if err != nil {
			t.Fatal(err)
		}
		if name == file {
			if !strings.Contains(string(text), old) {
				t.Fatalf("%s has no %q", file, old)
			}
			text = []byte(strings.ReplaceAll(string(text), old, now))
		}
		out[name] = &fstest.MapFile{Data: text}
	}
	return out
}

func TestAMistakeInTheProgramIsSeen(t *testing.T) {
	runtimetest.SkipRace(t)
	for _, m := range []struct{ file, old, now string }{
		{"passes.p4", "(_, 0x8000 &&& 0x8000, 1, 1 &&& 0xffffff): ITER_FIRST();", ""},
		{"passes.p4", "(1, _, _, 0x800000 &&& 0x800000): ITER_SECOND();", ""},
		{"passes.p4", "(1, 0x8000 &&& 0x8000, _, 0 &&& 0xffffff): ITER_FIRST();", ""},
		{"passes.p4", "(_, _, _, 0 &&& 0xffffff): ITER_NEXT();", ""},
		{"passes.p4", "meta.any_flow = meta.flow | FLOW_CONTROL_CLASS;", "meta.any_flow = meta.flow;"},
		{"passes.p4", "EVENT == EVENT_NONE && meta.watched == 1", "meta.watched == 1"},
		{"passes.p4", "(EVENT_CORRUPT, false, _, 0): corrupt_v6();", ""},
		{"passes.p4", "meta.slots - 1", "meta.slots - 2"},
		{"passes.p4", "RESTART_TURNS();", ""},
		{"passes.p4", "first_of_responses();", "first_of_requests();"},
		{"passes.p4", "widen_psn();\n", "widen_psn(); TAKE_EPOCH();\n"},
		{"injector_tna.p4", "stored = meta.epoch;", ""},
		{"injector_tna.p4", "hdr.bridge.roce = 1;", ""},
		{"injector_tna.p4", "#define LEAVE came_from();", "#define LEAVE"},
		{"injector_tna.p4", "(true, 28..0xffff): left(IPV4_LEN, 1, 1);", "(true, 28..0xffff): left(IPV4_LEN, 1, 0);"},
		{"injector_tna.p4", "(false, 40..47): left(IPV6_LEN, 1, 0);", "(false, 40..47): left(IPV6_LEN, 0, 0);"},
		{"injector_tna.p4", "pkt.advance((bit<32>)ETHERNET_LEN << 3);", ""},
		{"injector_tna.p4", "bit<16> seq_high;\n    bit<32> seq_low;\n    bit<16> ether_type;",
			"bit<32> seq_low;\n    bit<16> seq_high;\n    bit<16> ether_type;"},
		{"events_counting.p4", "event_any_hits.count();", ""},
		{"opcode_table.p4", "MORE(class, space)\n    }", "}"},
		{"parser.p4", "0 &&& 1, 0, PROTOCOL_UDP", "0 &&& 0, 0, PROTOCOL_UDP"},
		{"passes_v1model.p4", "meta.mirror_event = meta.event;", ""},
		{"passes_v1model.p4", "r_slot.write(0, 0);", ""},
		{"passes_v1model.p4", "r_epoch.write(meta.round, meta.epoch);", ""},
	} {
		changed := overlay(t, m.file, m.old, m.now)
		var err error
		if m.file == "passes_v1model.p4" {
			var s *tna.BMv2
			if s, err = tna.NewBMv2(changed); err == nil {
				_, err = suite(s, s.Info, 30)
			}
		} else {
			var s *tna.Switch
			if s, err = tna.New(changed, 2); err == nil {
				_, err = suite(s, s.Info, 30)
			}
		}
		if err == nil {
			t.Errorf("%s: %q for %q changes nothing", m.file, m.now, m.old)
		}
	}
}

func ExampleNew() {
	s, err := tna.New(sources, 1)
	if err != nil {
		fmt.Println(err)
		return
	}
	err = s.Process(0, make([]byte, 60), func(port uint16, frame []byte) { fmt.Println(port, len(frame)) })
	fmt.Println(err)
	// Output: <nil>
}

// TestNoChainOfTablesIsLongerThanThePipeline is what the program can be asked without a compiler.
func TestNoChainOfTablesIsLongerThanThePipeline(t *testing.T) {
	for generation, stages := range map[int]int{1: 12, 2: 20} {
		for _, control := range []string{"I", "E"} {
			chain, err := tna.Chain(sources, generation, control)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("Tofino %d, %s: %d of %d stages: %s", generation, control, len(chain), stages, strings.Join(chain, ", "))
			if len(chain) < 2 || len(chain) > stages {
				t.Errorf("Tofino %d, %s: a chain of %d tables", generation, control, len(chain))
			}
		}
	}
}

func TestTheProgramBreaksNoRuleOfTheHardware(t *testing.T) {
	for _, generation := range []int{1, 2} {
		list, err := tna.Breaches(sources, generation)
		if err != nil || len(list) > 0 {
			t.Errorf("Tofino %d: %q, %v", generation, list, err)
		}
	}
}

func TestABreachIsNamed(t *testing.T) {
	for _, m := range []struct{ file, old, now, want string }{
		{"events_counting.p4", "        event_any_hits.count();\n        EVENT = EVENT_ECN;", "        EVENT = EVENT_ECN;",
			"action event_any_mark_ecn of table event_any does not count"},
		{"injector_tna.p4", "action find_round() {", "action find_round() {\n meta.any_space = 0;",
			"action find_round takes a hash and does something else"},
		{"injector_tna.p4", "meta.fresh = swap_epoch.execute(meta.round);",
			"meta.fresh = swap_epoch.execute(meta.round);\n        meta.iter = same_round.execute(meta.round);",
			"action take_epoch touches 2 registers"},
		{"injector_tna.p4", "meta.iter = same_round.execute(meta.round);", "meta.iter = same_round.execute(0);",
			"register r_iter is touched at"},
		{"passes.p4", "            (_, _, _, _): ITER_SAME();\n        }\n        const default_action = NoAction();",
			"        }\n        const default_action = ITER_SAME();",
			"the default action of table next_iter touches a register by a hash"},
		{"passes.p4", "            RUNTS\n", "            mirror.apply();\n            RUNTS\n", "table mirror is applied in two places"},
		{"passes.p4", "meta.psn = (bit<32>)hdr.bth.psn;", "meta.psn = hdr.bth.psn ++ 8w0;",
			"action widen_psn sets meta.psn to rotated bits and constant ones"},
		{"injector_tna.p4", "    RegisterAction<bit<16>, bit<13>, bit<16>>(r_iter) same_round = {",
			"    RegisterAction<bit<16>, bit<13>, bit<16>>(r_iter) fifth = {\n        void apply(inout bit<16> iter) {\n" +
				"            iter = 5;\n        }\n    };\n\n" +
				"    RegisterAction<bit<16>, bit<13>, bit<16>>(r_iter) same_round = {", "register r_iter has 5 register actions"},
	} {
		list, err := tna.Breaches(overlay(t, m.file, m.old, m.now), 2)
		if err != nil || !strings.Contains(strings.Join(list, "\n"), m.want) {
			t.Errorf("%q, %v; want %q", list, err, m.want)
		}
	}
}
