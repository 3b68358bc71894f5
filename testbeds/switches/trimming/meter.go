package trimming

import "candela.dev/candela/clock"

// Colour is a meter's result for a packet (RFC 2697, RFC 2698).
type Colour uint8

// Colours, from within the committed rate to beyond the peak rate.
const (
	NoColour Colour = iota
	Green
	Yellow
	Red
)

// String returns the colour's name.
func (c Colour) String() string {
	switch c {
	case Green:
		return "green"
	case Yellow:
		return "yellow"
	case Red:
		return "red"
	case NoColour:
	}
	return "none"
}

// bucketUnit is the resolution of a bucket: 10¹² units per bit. A rate of r bit/s then adds r units per picosecond,
// without rounding.
const bucketUnit = int64(clock.Second)

// MaxBurst is the largest burst of a meter in bytes: it fits into 63 bits of bucketUnits.
const MaxBurst = 1 << 20

// bucket is a token bucket: it fills at rate up to burst. A new one is full.
type bucket struct {
	rate  clock.BitRate
	burst int64 // bucketUnits
	level int64 // bucketUnits
	at    clock.Time
}

func newBucket(rate clock.BitRate, burst int) bucket {
	full := int64(min(burst, MaxBurst)) * 8 * bucketUnit
	return bucket{rate: rate, burst: full, level: full}
}

// fill adds tokens for the time since the last call. Time that runs backwards adds none.
func (b *bucket) fill(now clock.Time) {
	elapsed := int64(now.Sub(b.at))
	if elapsed <= 0 {
		return
	}
	b.at = now
	// Compare by division: rate times elapsed would overflow after a quiet second.
	if missing := b.burst - b.level; b.rate > 0 && elapsed > missing/int64(b.rate) {
		b.level = b.burst
		return
	}
	b.level += int64(b.rate) * elapsed
}

func (b *bucket) holds(bytes int) bool { return b.level >= int64(bytes)*8*bucketUnit }

func (b *bucket) take(bytes int) { b.level -= int64(bytes) * 8 * bucketUnit }

// A Meter is a single-rate meter with one bucket (RFC 2697 with excess burst 0): green within the rate, red beyond it.
// A red packet takes no tokens. For a sender at full rate it is a virtual queue of burst bytes that drains at the
// meter's rate.
type Meter struct{ committed bucket }

// NewMeter returns a meter that starts with a full bucket. Burst is in bytes, at most MaxBurst.
func NewMeter(rate clock.BitRate, burst int) Meter { return Meter{newBucket(rate, burst)} }

// Execute meters a packet: Green or Red.
func (m *Meter) Execute(now clock.Time, bytes int) Colour {
	m.committed.fill(now)
	if !m.committed.holds(bytes) {
		return Red
	}
	m.committed.take(bytes)
	return Green
}

// A TwoRateMeter is the two-rate three-colour marker of RFC 2698 in colour-blind mode: red beyond the peak rate, yellow
// beyond the committed rate, else green.
type TwoRateMeter struct{ peak, committed bucket }

// NewTwoRateMeter returns a meter with two full buckets of burst bytes each.
func NewTwoRateMeter(peak, committed clock.BitRate, burst int) TwoRateMeter {
	return TwoRateMeter{newBucket(peak, burst), newBucket(committed, burst)}
}

// Execute meters a packet: Green, Yellow or Red.
func (m *TwoRateMeter) Execute(now clock.Time, bytes int) Colour {
	m.peak.fill(now)
	m.committed.fill(now)
	if !m.peak.holds(bytes) {
		return Red
	}
	m.peak.take(bytes)
	if !m.committed.holds(bytes) {
		return Yellow
	}
	m.committed.take(bytes)
	return Green
}
