package switchtest

import (
	"fmt"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/clock"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/testbeds/switches"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// checkPair refuses a pair of switches of a model that has none.
func (p *Plan) checkPair() error {
	t := p.Test
	if !t.Topology.Pair() {
		return nil
	}
	if p.model.Pairs == nil {
		return fmt.Errorf("%s: %s has a backup for a switch, and switches of the model %s take over from no other",
			t.Where("topology.kind"), t.Topology.Model, t.Switch.Model)
	}
	if problem := p.model.Pairs(t.Switch.Values); problem != nil {
		return fmt.Errorf("%s: %s\n  %s", t.Where("switch-under-test."+problem.Key), problem.What, problem.Why)
	}
	return p.checkPath()
}

// checkPath refuses trunks without which packets pass the switch of a pair that they are not for. Without those of the
// original, requests pass the backup, which has not taken over, and servers grant what the original grants; without
// that to the servers, the original takes what the backup asks them for questions to itself.
func (p *Plan) checkPath() error {
	t := p.Test
	refuse := func(path string, of interface{ Joins(a, b string) bool }, failed bool) error {
		switch {
		case !failed:
		case of.Joins("left", "original"), of.Joins("original", "right"):
			return fmt.Errorf("%s: the trunk fails, and packets pass the backup while the original has the locks\n  let the "+
				"original stop instead (changes: state: stopped), or another trunk fail", t.Where(path))
		case of.Joins("backup", "right"):
			return fmt.Errorf("%s: the trunk fails, and what the backup asks lock servers passes the original\n  let that to "+
				"left or original fail", t.Where(path))
		}
		return nil
	}
	for i := range t.Topology.Trunks {
		of := &t.Topology.Trunks[i]
		if err := refuse(fmt.Sprintf("topology.trunks[%d].failed", i), of, of.Failed); err != nil {
			return err
		}
	}
	for i := range t.Changes {
		if of := t.Changes[i].Trunk; of != nil {
			if err := refuse(fmt.Sprintf("changes[%d].trunk.failed", i), of, of.Failed != nil && *of.Failed); err != nil {
				return err
			}
		}
	}
	return nil
}

// plain reports whether a switch only forwards: those beside a pair are not under test.
func (p *Plan) plain(sw *fabric.Switch) bool {
	if _, nic := sw.Host(); nic || !p.Test.Topology.Pair() {
		return false
	}
	port, _ := sw.Pair()
	return port < 0
}

// prefer has packets pass the backup, which takes over, or the original again.
func (r *run) prefer(now clock.Time, backup bool) error {
	r.net.Prefer(backup)
	if !backup {
		return nil
	}
	sw := r.net.Switch(backupNumber)
	m, ok := sw.Mechanism().(switches.Standby)
	if !ok {
		return fmt.Errorf("switch %s cannot take over", sw.Name())
	}
	m.TakeOver(now, sw)
	for _, j := range r.judges {
		if j.takesOver != nil {
			j.takesOver(now, backupNumber)
		}
	}
	return nil
}

// Switches of a pair by their numbers.
const (
	originalNumber = iota
	backupNumber
)

// Pair returns the port of a switch that leads to the other one of its pair, and whether it is the backup; −1: none.
func (d device) Pair(sw int) (port int, backup bool) { return d.at(sw).Pair() }

// preferred lists what routes learn of a pair: which of its switches packets pass.
func preferred(n *analyzers.Network, t *config.SwitchTest) (list []analyzers.Learned) {
	if !t.Topology.Pair() {
		return nil
	}
	learn := func(at clock.Time, of int, avoided bool) {
		for from, peers := range n.Peers {
			if from == originalNumber || from == backupNumber {
				continue
			}
			for _, to := range peers {
				if to == of {
					list = append(list, analyzers.Learned{At: at, Trunk: [2]int{from, to}, OneWay: true, Failed: avoided})
				}
			}
		}
	}
	n.Open = append(n.Open, [2]int{originalNumber, backupNumber})
	learn(analyzers.Always, backupNumber, true)
	for _, c := range sortedChanges(t.Changes) {
		if c.State() != "" {
			at := clock.Time(0).Add(c.At + t.Topology.Reroute())
			learn(at, originalNumber, c.State() == config.Stopped)
			learn(at, backupNumber, c.State() != config.Stopped)
		}
	}
	return list
}

// combined returns what routes learn of a pair's trunks, which they avoid for two reasons: the trunk has failed, or
// leads to the switch that packets are not to pass.
func combined(n *analyzers.Network) (list []analyzers.Learned) {
	failed, avoided := make(map[[2]int]bool), make(map[[2]int]bool)
	for _, trunk := range n.Failed {
		failed[trunk] = true
	}
	for _, l := range n.Learned {
		ways, reason := [][2]int{l.Trunk}, avoided
		if !l.OneWay {
			ways, reason = append(ways, [2]int{l.Trunk[1], l.Trunk[0]}), failed
		}
		for _, way := range ways {
			reason[way] = l.Failed
			list = append(list, analyzers.Learned{At: l.At, Trunk: way, OneWay: true, Failed: failed[way] || avoided[way]})
		}
	}
	return list
}
