package boltswitch_test

import (
	"os"
	"slices"
	"testing"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/boltswitch"
	"candela.dev/candela/analyzers/cause/causetest"
	"candela.dev/candela/clock"
)

// book keeps what the tests of this package make the analyzer report.
var book = causetest.NewBook(boltswitch.Causes())

func TestMain(m *testing.M) { os.Exit(book.Main(m)) }

func TestEveryRuleHasCausesWithSentences(t *testing.T) {
	causetest.Table(t, boltswitch.Rules(), boltswitch.Causes())
}

const (
	first = boltswitch.First
	last  = boltswitch.Last
	inc   = boltswitch.Inc
	dec   = boltswitch.Dec
)

// step is a packet that arrives with some flags and joins the queue with others: data of 1500 bytes, or an SRC packet
// for data.
type step struct {
	came, joined boltswitch.Flags
	src          bool
	number       uint32 // of the data that an SRC packet is for
	queue, rate  uint32 // of SRC; rate 0: that of the link
	sent         uint32
	later        clock.Duration
	leaves       bool // the queue at once
}

// judge shows the judge of a switch with one port of 10 Gb/s, a threshold of 3000 bytes and an MTU of 1500 the steps;
// data packets are numbered from 1.
func judge(cfg boltswitch.Config, steps []step) (rules []string) {
	cfg.Name, cfg.Threshold, cfg.MTU, cfg.MaxTokens = "leaf-0", 3000, 1500, 2
	cfg.Ports = []boltswitch.Port{{Rate: 10 * clock.Gbps}}
	report := analyzers.NewReporter(boltswitch.Name, boltswitch.Rules())
	j := boltswitch.New(cfg, report)
	now, number := clock.Time(0).Add(clock.Microsecond), uint32(0)
	for i, s := range steps {
		now = now.Add(s.later)
		e := boltswitch.Event{Time: now, ID: uint64(i + 1), Size: 1500, Data: !s.src, SRC: s.src, Flags: s.came,
			Key: boltswitch.Key{Sender: 1, Receiver: 2}}
		show := func(stage boltswitch.Stage) {
			e.Stage = stage
			j.Observe(&e)
		}
		if s.src {
			e.Size, e.Number, e.Queue, e.RateMbps, e.SentNS, e.Port = 74, s.number, s.queue, max(s.rate, 10_000), s.sent, -1
			show(boltswitch.Joined)
			continue
		}
		number++
		e.Number = number
		show(boltswitch.Arrived)
		e.Flags = s.joined
		if show(boltswitch.Joined); s.leaves {
			show(boltswitch.Left)
			show(boltswitch.Ended)
		}
	}
	j.Finish()
	for _, f := range book.Keep(report.Findings()) {
		if !slices.Contains(rules, f.Rule) {
			rules = append(rules, f.Rule)
		}
	}
	return rules
}

func TestFlagsAndNoticesFollowOccupancyAndTokens(t *testing.T) {
	const us = clock.Microsecond
	src := boltswitch.Config{SRC: true}
	pru, sm := boltswitch.Config{SRC: true, PRU: true}, boltswitch.Config{SRC: true, SM: true}
	full := []step{{}, {}} // 3000 bytes wait
	notice := step{src: true, number: 3, queue: 3000}
	with := func(steps ...step) []step { return append(slices.Clone(full), steps...) }
	for _, test := range []struct {
		name  string
		cfg   boltswitch.Config
		steps []step
		want  []string
	}{
		{"data that finds the threshold is answered", src, with(step{inc, dec, false, 0, 0, 0, 0, 0, false}, notice), nil},
		{"it is not answered", src, with(step{came: inc, joined: dec}), []string{"boltswitch.src-missing"}},
		{"it is answered later", src, with(step{joined: dec}, step{src: true, number: 3, queue: 3000, later: us}),
			[]string{"boltswitch.src-missing", "boltswitch.src-unfounded"}},
		{"it is answered twice", src, with(step{joined: dec}, notice, notice), []string{"boltswitch.src-twice"}},
		{"an earlier switch has answered", src, with(step{came: dec, joined: dec}), nil},
		{"it is answered again", src, with(step{came: dec, joined: dec}, notice), []string{"boltswitch.src-unfounded"}},
		{"data below the threshold is answered", src, []step{{}, {}, {src: true, number: 2, queue: 1500}},
			[]string{"boltswitch.src-unfounded"}},
		{"the queue in it is wrong", src, with(step{joined: dec}, step{src: true, number: 3, queue: 1500}),
			[]string{"boltswitch.src-content"}},
		{"the rate in it is wrong", src, with(step{joined: dec}, step{src: true, number: 3, queue: 3000, rate: 20_000}),
			[]string{"boltswitch.src-content"}},
		{"the time in it is wrong", src, with(step{joined: dec}, step{src: true, number: 3, queue: 3000, sent: 7}),
			[]string{"boltswitch.src-content"}},
		{"congestion leaves INC", src, with(step{came: inc, joined: inc | dec}, notice), []string{"boltswitch.mark"}},
		{"congestion without SRC takes INC alone", boltswitch.Config{PRU: true}, with(step{came: inc}), nil},
		{"DEC without congestion", src, []step{{joined: dec}}, []string{"boltswitch.mark"}},
		{"INC stays without tokens", src, []step{{came: inc, joined: inc}}, []string{"boltswitch.grant"}},
		{"a packet with LAST gives a token", pru, []step{{came: last, joined: last}, {came: inc, joined: inc}}, nil},
		{"only one", pru, []step{{last, last, false, 0, 0, 0, 0, 0, true}, {came: inc, joined: inc, leaves: true},
			{came: inc, joined: inc}}, []string{"boltswitch.grant"}},
		{"the token is not granted", pru, []step{{came: last, joined: last}, {came: inc}}, []string{"boltswitch.refusal"}},
		{"with FIRST it gives none", pru, []step{{came: first | last, joined: first | last}, {came: inc, joined: inc}},
			[]string{"boltswitch.grant"}},
		{"LAST takes no INC", pru, []step{{came: last | inc, joined: last}}, []string{"boltswitch.refusal"}},
		{"there are as many tokens as a port keeps", pru, []step{{came: last, joined: last, leaves: true},
			{came: last, joined: last, leaves: true}, {came: last, joined: last, leaves: true},
			{came: inc, joined: inc, leaves: true}, {came: inc, joined: inc, leaves: true}, {came: inc, leaves: true}}, nil},
		// 1500 bytes take 1.2 us of the link; tokens are kept up to an MTU, before what the packet itself takes.
		{"an idle link grants", sm, []step{{leaves: true}, {came: inc, joined: inc, later: 4 * us}}, nil},
		{"and then no more", sm, []step{{leaves: true}, {came: inc, joined: inc, later: 4 * us, leaves: true},
			{came: inc, joined: inc, later: us}}, []string{"boltswitch.grant"}},
		{"an idle link does not grant", sm, []step{{leaves: true}, {came: inc, later: 4 * us}},
			[]string{"boltswitch.refusal"}},
		{"a link in use grants nothing", sm, []step{{leaves: true}, {came: inc, later: 2 * us}}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := judge(test.cfg, test.steps); !slices.Equal(got, test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}
