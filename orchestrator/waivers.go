package orchestrator

import (
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"candela.dev/candela/orchestrator/config"
)

// Waivers excuse known violations of known devices. One value serves all runs of a command, several of which may be
// under way at once, so that it knows in the end which waivers excused nothing. The zero value and nil excuse nothing.
type Waivers struct {
	list []config.Waiver
	day  string // today, YYYY-MM-DD
	used []atomic.Bool
}

// NewWaivers returns the waivers of list as they hold at the instant now.
func NewWaivers(list []config.Waiver, now time.Time) *Waivers {
	return &Waivers{list: list, day: now.Format(time.DateOnly), used: make([]atomic.Bool, len(list))}
}

// expired reports whether the i-th waiver held no longer; its last day is still good.
func (w *Waivers) expired(i int) bool { return w.list[i].Expires < w.day } // dates of this form sort like text

// excuse returns the waiver of a violation of rule in test t, nil if there is none. Which of the two hosts is to blame
// is not known, so the waiver of either counts.
func (w *Waivers) excuse(t *config.Test, rule string) *config.Waiver {
	return w.Excuse(rule, t.Requester.NIC.Profile, t.Responder.NIC.Profile)
}

// Excuse returns the waiver of a violation of rule by one of some simulated devices, nil if there is none. Models have
// no firmware: a waiver that names one is for another device.
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

// Warnings says which waivers expired and which excused nothing, in the order of the file.
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
