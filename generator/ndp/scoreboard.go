package ndp

import "fmt"

// Penalty configures the scoreboard of paths (Handley et al. 2017, section 3.2.3: a sender counts ACKs, NACKs and
// losses of every path, and temporarily excludes paths whose counts are outliers). The paper gives no numbers; the
// defaults of the transport are ours.
type Penalty struct {
	On bool
	// Answers is the length of a period: so many ACKs, NACKs and returned headers for each path, on average.
	Answers int
	// SharePercent and FactorPercent make a path an outlier: at least this share of what was heard of it in a period is
	// NACKs, returned headers and losses, and more than this percentage of the share of all other paths together.
	SharePercent, FactorPercent int
	Periods                     int // for which an outlier is excluded
}

func (p *Penalty) validate(paths int) error {
	switch {
	case !p.On:
		return nil
	case paths < 2:
		return fmt.Errorf("path penalty with %d path: excluding one takes at least 2", paths)
	case p.Answers < 1 || p.Periods < 1 || p.SharePercent < 1 || p.SharePercent > 100 || p.FactorPercent < 100:
		return fmt.Errorf("path penalty of %d answers, %d periods, %d %% and %d %%: must be positive, the last at least 100",
			p.Answers, p.Periods, p.SharePercent, p.FactorPercent)
	}
	return nil
}

// scoreboard is what a sender counts of its paths. At the end of each period it decides and begins anew.
type scoreboard struct {
	paths    []pathScore
	answers  int // in this period
	period   uint32
	excluded int // paths
}

type pathScore struct {
	heard, bad uint32 // in this period; losses count as both
	until      uint32 // the period from which on it is used
}

// answered counts what was heard of a path.
func (b *scoreboard) answered(h *Host, path uint16, bad bool) {
	if int(path) >= len(b.paths) {
		return
	}
	p := &b.paths[path]
	p.heard++
	if bad {
		p.bad++
	}
	if b.answers++; b.answers == h.cfg.Penalty.Answers*len(b.paths) {
		b.decide(h)
	}
}

// lost counts a packet that was neither ACKed nor NACKed nor returned.
func (b *scoreboard) lost(path uint16) {
	b.paths[path].heard++
	b.paths[path].bad++
}

// decide ends a period.
func (b *scoreboard) decide(h *Host) {
	var heard, bad uint32
	for i := range b.paths {
		heard += b.paths[i].heard
		bad += b.paths[i].bad
	}
	b.answers, b.excluded = 0, 0
	b.period++
	for i := range b.paths {
		p := &b.paths[i]
		if h.cfg.Penalty.outlier(p, heard, bad) || i == 0 && h.cfg.Bugs.Has(BugExcludesWithoutCause) {
			p.until = b.period + uint32(h.cfg.Penalty.Periods)
		}
		if p.until > b.period {
			b.excluded++
		}
		p.heard, p.bad = 0, 0
	}
}

// outlier reports whether a path is to be excluded; heard and bad are of all paths. A path of which less than half of
// what is usual was heard is not judged.
func (c *Penalty) outlier(p *pathScore, heard, bad uint32) bool {
	others, badOthers := uint64(heard-p.heard), uint64(bad-p.bad)
	own, badOwn := uint64(p.heard), uint64(p.bad)
	return 2*own >= uint64(c.Answers) && others > 0 && 100*badOwn >= uint64(c.SharePercent)*own &&
		100*badOwn*others > uint64(c.FactorPercent)*badOthers*own
}

// uses reports whether packets may take a path. If all are excluded, all are used.
func (b *scoreboard) uses(path uint16) bool {
	return b.paths[path].until <= b.period || b.excluded == len(b.paths)
}

// tag returns the path of the next packet.
func (s *sender) tag() uint16 {
	tag := s.paths.tag()
	if s.board == nil || s.host.cfg.Bugs.Has(BugIgnoresScoreboard) {
		return tag
	}
	for !s.board.uses(tag) {
		tag = s.paths.tag()
	}
	return tag
}

// score counts an answer for the path of the packet that it answers.
func (s *sender) score(path uint16, bad bool) {
	if s.board != nil {
		s.board.answered(s.host, path, bad)
	}
}
