package trace

import (
	"fmt"

	"candela.dev/candela/packet/encapsulation"
)

// stamps turns the times of ERSPAN III headers into file times. They are those of the switch that mirrored, without
// delays on the way to the capture. A clock is aligned with the file's at its first frame.
type stamps struct {
	clocks []stampClock
	used   int64 // frames
}

// stampClock is the clock of one mirroring switch.
type stampClock struct {
	source   uint64
	offsetNS int64
	startNS  int64 // file time of the first frame
	broken   bool
}

// coarsestStampNS is the coarsest unit that is better than the time of the file.
const coarsestStampNS = 1000

// time returns the time of a frame that the file says was captured at fileNS.
func (s *stamps) time(stamp encapsulation.Stamp, fileNS int64) int64 {
	if stamp.UnitNS <= 0 || stamp.UnitNS > coarsestStampNS {
		return fileNS
	}
	c := s.clock(stamp.Source)
	if c == nil {
		return fileNS
	}
	period := stamp.UnitNS << 32
	if stamp.UnitNS == 1 {
		period = 1_000_000_000 // nanoseconds of a second
	}
	ns := int64(stamp.Ticks) * stamp.UnitNS % period
	if c.startNS == 0 {
		c.startNS, c.offsetNS = fileNS, fileNS-ns
	}
	turns := (fileNS - c.offsetNS - ns + period/2) / period // since the first frame; the nearest number
	if fileNS-c.offsetNS-ns+period/2 < 0 {
		turns-- // division rounds towards zero
	}
	at := c.offsetNS + ns + turns*period
	const slackNS, driftShare = 50_000_000, 1000
	if d := at - fileNS; c.broken || d > slackNS+(fileNS-c.startNS)/driftShare ||
		d < -slackNS-(fileNS-c.startNS)/driftShare {
		c.broken = true // the clock does not advance or runs at another rate
		return fileNS
	}
	s.used++
	return at
}

// clock returns the clock of a source, or nil if there are too many.
func (s *stamps) clock(source uint64) *stampClock {
	for i := range s.clocks {
		if s.clocks[i].source == source {
			return &s.clocks[i]
		}
	}
	const maxClocks = 64
	if len(s.clocks) == maxClocks {
		return nil
	}
	s.clocks = append(s.clocks, stampClock{source: source})
	return &s.clocks[len(s.clocks)-1]
}

func (s *stamps) notes() (list []string) {
	broken := 0
	for i := range s.clocks {
		if s.clocks[i].broken {
			broken++
		}
	}
	if s.used > 0 {
		list = append(list, fmt.Sprintf("the times of %d frames are those of their ERSPAN III headers", s.used))
	}
	if broken > 0 {
		list = append(list, fmt.Sprintf("the ERSPAN III times of %d of %d switches do not run with those of the file and "+
			"were ignored from there on", broken, len(s.clocks)))
	}
	return list
}
