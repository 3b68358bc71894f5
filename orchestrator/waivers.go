package orchestrator

import (
	"fmt"
	"time"

	"candela.dev/candela/orchestrator/config"
)

// Waivers excuse known violations of known devices. One value serves all runs of a command, so that it knows in the end which
// waivers excused nothing. The zero value and nil excuse nothing.
type Waivers struct {
	list []config.Waiver
	day  string // today, YYYY-MM-DD
	used []bool
}

// NewWaivers returns the waivers of list as they hold at the instant now.
func NewWaivers(list []config.Waiver, now time.Time) *Waivers {
	return &Waivers{list: list, day: now.Format(time.DateOnly), used: make([]bool, len(list))}
}

// expired reports whether the i-th waiver held no longer; its last day is still good.
func (w *Waivers) expired(i int) bool { return w.list[i].Expires < w.day } // dates of this form sort like text

// excuse returns the waiver of a violation of rule in test t, nil if there is none. Which of the two hosts is to blame is not
// known, so the waiver of either counts. Models have no firmware: a waiver that names one is for another device.
func (w *Waivers) excuse(t *config.Test, rule string) *config.Waiver {
	if w == nil {
		return nil
	}
	for i := range w.list {
		x := &w.list[i]
		if x.Rule != rule || x.Firmware != "" || w.expired(i) {
			continue
		}
		if x.Model == t.Requester.NIC.Profile || x.Model == t.Responder.NIC.Profile {
			w.used[i] = true
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
		case !w.used[i]:
			list = append(list, name+" excused nothing")
		}
	}
	return list
}
