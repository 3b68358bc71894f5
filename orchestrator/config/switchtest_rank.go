package config

import (
	"cmp"
	"fmt"
	"slices"

	"candela.dev/candela/generator/wire"
	"candela.dev/candela/generator/workload"
	"gopkg.in/yaml.v3"
)

const rankDoc = "Rank of each packet, lowest first, for switches that schedule or admit by rank: `remaining` (bytes " +
	"of the flow from the packet's first byte on), `deadline` (of the flow, in ns of the run) or a number for all. " +
	"Packets of the receiver have rank 0. Either all items have a rank or none."

// ranking is remaining, deadline, or a number.
type ranking struct{}

const maxRank = 1 << 53 // readers of JSON keep it exact

func fixedRank() integer { return integer{min: 0, max: maxRank} }

func (ranking) allowed() string { return "remaining, deadline, or " + fixedRank().allowed() }

func (k ranking) decode(d *decoder, n *yaml.Node, path string, dst any) {
	r := dst.(*wire.Ranking)
	switch {
	case n.Kind == yaml.ScalarNode && n.Value == "remaining":
		r.Kind = wire.RankByBytes
	case n.Kind == yaml.ScalarNode && n.Value == "deadline":
		r.Kind = wire.RankByDeadline
	case n.Kind == yaml.ScalarNode && (n.Tag == "!!int" || n.Tag == "!!float"):
		r.Kind = wire.RankFixed
		fixedRank().decode(d, n, path, &r.Value)
	default:
		d.wrongType(n, path, k.allowed())
	}
}

func (ranking) encode(src any) *yaml.Node {
	r := src.(*wire.Ranking)
	if r.Kind == wire.RankFixed {
		return fixedRank().encode(&r.Value)
	}
	return stringNode(r.String())
}

func (ranking) jsonSchema() map[string]any {
	return map[string]any{"oneOf": []any{map[string]any{"enum": []any{"remaining", "deadline"}}, fixedRank().jsonSchema()}}
}

// Ranked reports whether the packets of an item have ranks.
func (l *Offer) Ranked() bool { return l.Rank != nil }

// Ranking returns how the senders of an item rank the packets of a flow; the deadline counts from its start.
func (l *Offer) Ranking() wire.Ranking {
	if l.Rank == nil {
		return wire.Ranking{}
	}
	r := *l.Rank
	if r.Kind == wire.RankByDeadline && l.Deadline != nil {
		r.Value = uint64(l.Deadline.Nanoseconds())
	}
	return r
}

// Ranked reports whether packets have ranks: those of all items, or of none.
func (t *SwitchTest) Ranked() bool {
	return slices.ContainsFunc(t.Workload, func(w Workload) bool { return w.Offer.Ranked() })
}

// completeRanks gives items the ranks of their transport, unless they say otherwise.
func (d *decoder) completeRanks(t *SwitchTest) {
	for i := range t.Workload {
		l := &t.Workload[i].Offer
		k := workload.Find(t.Workload[i].Kind)
		if k == nil || l.Rank != nil {
			continue
		}
		if of := d.options.transport(cmp.Or(k.Transport, t.TransportOf(l))); of != nil && of.Ranking.Kind != wire.Unranked {
			r := of.Ranking
			if k.Closed() {
				r = wire.Ranking{Kind: wire.RankFixed}
			}
			l.Rank = &r
		}
	}
}

// knowsRest reports whether the senders of requests and responses know how much of them remains: those of TCP and Bolt
// do.
func knowsRest(t *SwitchTest, k *workload.Kind, l *Offer, r wire.Ranking) bool {
	of := cmp.Or(k.Transport, t.TransportOf(l))
	return k.For == workload.Loop && r.Kind == wire.RankByBytes && (of == "tcp" || of == "bolt")
}

// validateRank checks the rank of item i.
func (d *decoder) validateRank(t *SwitchTest, i int, k *workload.Kind, at string) {
	l := &t.Workload[i].Offer
	switch r := l.Ranking(); {
	case !l.Ranked() && t.Ranked():
		d.problemAt(at+".rank", "is missing", "either all items of a workload have a rank or none; lower is more urgent")
	case k.Closed() && r.Kind != wire.Unranked && r.Kind != wire.RankFixed && !knowsRest(t, k, l, r):
		d.problemAt(at+".rank", fmt.Sprintf("%s is for transfers of data", r), "a "+k.Name+" workload takes a number")
	case r.Kind == wire.RankByDeadline && l.Deadline == nil:
		d.problemAt(at+".deadline-us", "is missing", "rank: deadline needs it")
	case r.Kind != wire.RankByDeadline && l.Deadline != nil:
		d.problemAt(at+".deadline-us", "is given without rank: deadline", "nothing else reads it")
	}
}
