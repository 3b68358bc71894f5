package packet

import "fmt"

// PSN is a packet sequence number: 24 bits that wrap (IBTA volume 1, 9.2). Values above 0xffffff are not PSNs; every
// method returns a masked one.
type PSN uint32

const psnMask = 1<<24 - 1

// NewPSN reduces n modulo 2²⁴.
func NewPSN(n int64) PSN { return PSN(n & psnMask) }

// Add returns p moved by n, which may be negative.
func (p PSN) Add(n int) PSN { return PSN((int64(p) + int64(n)) & psnMask) }

// Next returns the PSN that follows p.
func (p PSN) Next() PSN { return (p + 1) & psnMask }

// Sub returns the signed distance from q to p, in −2²³ … 2²³−1.
func (p PSN) Sub(q PSN) int { return int(int32(uint32(p-q)<<8) >> 8) }

// Before reports whether p precedes q in 24-bit serial arithmetic. A PSN exactly 2²³ away counts as before.
func (p PSN) Before(q PSN) bool { return p.Sub(q) < 0 }

// String prints p as the field's tools do, in decimal.
func (p PSN) String() string { return fmt.Sprintf("%d", uint32(p)) }

// QPN is a 24-bit queue pair number.
type QPN uint32

// String prints q as Wireshark does: six hexadecimal digits.
func (q QPN) String() string { return fmt.Sprintf("0x%06x", uint32(q)) }
