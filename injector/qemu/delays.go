package qemu

import "candela.dev/candela/injector/delay"

// Delays are the times between reading frames from one socket and having written them to the next.
type Delays = delay.Counts

// ParseDelays reads what String of Delays wrote.
func ParseDelays(text string) (Delays, error) { return delay.Parse(text) }
