package gbn_test

import (
	"slices"
	"testing"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/gbn"
	"candela.dev/candela/trace"
)

// TestWhatElseExplainsAPair weighs what two captures show by what is known of them.
func TestWhatElseExplainsAPair(t *testing.T) {
	agreed := trace.Meta{Kind: trace.KindPair, Complete: true, Agreed: true}
	vouched := trace.Meta{Kind: trace.KindPair, Complete: true}
	near := trace.Meta{Kind: trace.KindPair, Complete: true, AtHosts: true, HostsInferred: true}
	hosts := trace.Meta{Kind: trace.KindPair, Complete: true, AtHosts: true}
	const (
		late = `> 1 sent; > 2 sent drop; > 3 sent; > 1 passed; > 3 passed; < nak 2 sent; < nak 2 passed; > 2 sent drop; > 3 sent; > 3 passed; < ack 3 sent; < ack 3 passed`
		hurt = `> 1 sent; > 2 sent corrupt; > 3 sent; > 1 passed; > 3 passed; < ack 3 sent; < ack 3 passed`
		skip = `> 1 sent; > 1 passed; > 3 sent; > 3 passed; < nak 2 sent; < nak 2 passed; > 2-3 sent; > 2-3 passed; < ack 3 sent; < ack 3 passed`
		twin = `> 1-3 sent; > 1 passed; > 3 passed; < nak 2 sent; < nak 2 passed; < nak 2 sent; < nak 2 passed; > 2-3 sent; > 2-3 passed; < ack 3 sent; < ack 3 passed`
		more = `> 1-2 sent; > 1-2 passed; < ack 3 sent; < ack 3 passed; > 3 sent; > 3 passed; < ack 3 sent; < ack 3 passed`
	)
	for name, s := range map[string]struct {
		meta  trace.Meta
		trace string
		want  []string
	}{
		"the second capture may have missed a retransmission that is acknowledged": {agreed, late, nil},
		"the captures are declared complete": {vouched, late,
			[]string{"gbn.ack-beyond"}},
		"a damaged request passed the second capture": {agreed, hurt,
			[]string{"gbn.ack-beyond", "gbn.nak-missing"}},
		"losses do not explain an ACK of what was not sent yet": {agreed, more,
			[]string{"gbn.ack-beyond"}},
		"requests may be lost before two captures of which one is at a switch": {near, skip, nil},
		"but not before the captures of two hosts":                             {hosts, skip, []string{"gbn.psn-skip"}},
		"losses do not explain a second NAK":                                   {near, twin, []string{"gbn.nak-repeat"}},
	} {
		t.Run(name, func(t *testing.T) {
			sc := scene{traffic: "write*3", trace: s.trace, kind: trace.KindPair}
			meta := s.meta
			meta.Connections = connections(t, 1, sc.ipsn, false)
			c := trace.CheckedRecords(meta, sc.records(t))
			fresh := func(m trace.Meta) []analyzers.Analyzer { return []analyzers.Analyzer{gbn.New(m, sc.cfg)} }
			doc, err := analyzers.Run(t.Context(), c, fresh(c.Meta())...)
			if err != nil {
				t.Fatal(err)
			}
			if err := analyzers.SoftenUnseen(t.Context(), c, 1, doc, fresh); err != nil {
				t.Fatal(err)
			}
			var got []string
			for i := range doc.Findings {
				if f := &doc.Findings[i]; f.Severity == analyzers.Violation && !slices.Contains(got, f.Rule) {
					got = append(got, f.Rule)
				}
			}
			if slices.Sort(got); !slices.Equal(got, s.want) {
				t.Errorf("violations %v, want %v\n%s", got, s.want, dump(doc.Findings))
			}
		})
	}
}
