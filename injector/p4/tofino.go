package p4

import (
	"slices"
	"sync"

	configpb "github.com/p4lang/p4runtime/go/p4/config/v1"
	"google.golang.org/protobuf/proto"
)

var tofino1 = sync.OnceValue(func() *Info { return Base().Without("trim").WithoutTables("mirror_egress") })

// Tofino1 returns the contract that the program for Tofino 1 serves: nothing there cuts a packet behind egress, so that
// it has no trim, and its clone sessions cut copies. Tofino 2 serves all of [Base].
func Tofino1() *Info { return tofino1() }

// WithoutTables returns info less the named tables and their counters: what a target that lacks them serves.
func (info *Info) WithoutTables(names ...string) *Info {
	pb := proto.Clone(info.pb).(*configpb.P4Info)
	gone := map[uint32]bool{}
	pb.Tables = slices.DeleteFunc(pb.Tables, func(t *configpb.Table) bool {
		if slices.Contains(names, t.GetPreamble().GetName()) {
			gone[t.GetPreamble().GetId()] = true
		}
		return gone[t.GetPreamble().GetId()]
	})
	pb.DirectCounters = slices.DeleteFunc(pb.DirectCounters, func(c *configpb.DirectCounter) bool {
		return gone[c.GetDirectTableId()]
	})
	used := map[uint32]bool{}
	for _, t := range pb.GetTables() {
		for _, r := range t.GetActionRefs() {
			used[r.GetId()] = true
		}
	}
	pb.Actions = slices.DeleteFunc(pb.Actions, func(a *configpb.Action) bool { return !used[a.GetPreamble().GetId()] })
	out, err := New(pb)
	if err != nil {
		panic("p4: removing tables broke the P4Info: " + err.Error())
	}
	return out
}
