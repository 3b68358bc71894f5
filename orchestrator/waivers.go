package orchestrator

import (
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"candela.dev/candela/orchestrator/config"
)

// Waivers excuse known violations of known devices. One value serves all runs of a command, including concurrent ones,
// and records which waivers were used. The zero value and nil excuse nothing.
type Waivers struct {
	list []config.Waiver
	day  string // today, YYYY-MM-DD
	used []atomic.Bool
}

// NewWaivers returns the waivers of list, valid at now.
func NewWaivers(list []config.Waiver, now time.Time) *Waivers {
	return &Waivers{list: list, day: now.Format(time.DateOnly), used: make([]atomic.Bool, len(list))}
}

// expired reports whether the i-th waiver has expired; it is still valid on its last day.
func (w *Waivers) expired(i int) bool { return w.list[i].Expires < w.day } // dates of this form sort lexically

// excuse returns the waiver of a violation of rule in test t; nil: none. The violation is not attributed to a host, so
// a waiver of either host applies.
func (w *Waivers) excuse(t *config.Test, rule string) *config.Waiver {
	return w.Excuse(rule, t.Requester.NIC.Profile, t.Responder.NIC.Profile)
}

// Excuse returns the waiver of a violation of rule by one of the simulated models; nil: none. Models have no firmware,
// so a waiver with a firmware never matches.
func (w *Waivers) Excuse(rule string, models ...string) *config.Waiver {
	if w == nil {
		return nil
	}
	for i := range w.list {
		x := &w.list[i]
		if x.Rule != rule || x.Firmware != "" || w.expired(i) {
			continue
		}
		if slices.Contains(models, x.Model) {
			w.used[i].Store(true)
			return x
		}
	}
	return nil
}

// Warnings lists the expired and the unused waivers in file order.
func (w *Waivers) Warnings() []string {
	if w == nil {
		return nil
	}
	var list []string
	for i := range w.list {
		x := &w.list[i]
		name := fmt.Sprintf("%s: the waiver of %s for %s (%s, %s)", x.Where, x.Rule, x.Model, x.Reference, x.Owner)
		switch {
		case w.expired(i):
			list = append(list, fmt.Sprintf("%s expired on %s", name, x.Expires))
		case !w.used[i].Load():
			list = append(list, name+" excused nothing")
		}
	}
	return list
}
