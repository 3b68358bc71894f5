package gbn

import (
	"candela.dev/candela/analyzers/bounds"
	"candela.dev/candela/analyzers/observer"
	"candela.dev/candela/trace"
)

// Config is what a test knows about its endpoints besides the trace. The zero Config judges everything that needs no
// such knowledge.
type Config struct {
	// Default holds for every connection that Connections does not name.
	Default Limits
	// Connections overrides Default by 1-based connection.
	Connections map[int]Limits

	// HostDelayNS bounds the nanoseconds that a packet takes between the observer and a host's transport, either way,
	// including queues and the NIC's processing. A sender certainly knows what passed towards it more than two such delays
	// before its packet was seen. 0: not measured; package bounds assumes one by kind of trace.
	HostDelayNS int64
	// LinkDelayNS is the longest one-way propagation of the links between hosts and switch in the described testbed.
	LinkDelayNS int64
	// SoftwareHosts says that the hosts are software stacks, as in virtual machines. The times of their packets prove
	// nothing about a timer. Where no delay was measured, their soft interrupts may be delayed as long as is assumed of
	// captures.
	SoftwareHosts bool

	// MaxPerRule is how many findings of one rule a connection reports; the rest are counted. 0: 16.
	MaxPerRule int
}

// Limits are the transport settings of one connection's requesters.
type Limits struct {
	// TimeoutNS is the local ACK timeout T in nanoseconds (4.096 us · 2^t); 0: unknown.
	TimeoutNS int64
	// Retry is retry_cnt and RNRRetry rnr_retry (whose 7 means infinite).
	Retry, RNRRetry Limit
	// MinRNRTimerNS is the least RNR timer in nanoseconds that the responders' queue pairs require; 0: unknown.
	MinRNRTimerNS int64
	// ErrorsExpected says that the test makes the connection fail: an unfinished message is then not a violation.
	ErrorsExpected bool
	// AtRest says that a single capture ends when the connection is at rest: what is owed then is missing.
	AtRest bool
}

// A Limit is a bound that may be unknown; the zero Limit is unknown.
type Limit struct {
	Known bool
	Max   int
}

// AtMost returns the known limit n.
func AtMost(n int) Limit { return Limit{Known: true, Max: n} }

const (
	defaultMaxPerRule = 16
	// infiniteRNRRetry is the rnr_retry that never gives up (IBTA volume 1, 9.7.5.2.8).
	infiniteRNRRetry = 7
)

// delay returns the bound on host delays in a trace of a kind.
func (c *Config) delay(kind trace.Kind) bounds.Delay {
	return bounds.Hosts{DelayNS: c.HostDelayNS, LinkNS: c.LinkDelayNS, Software: c.SoftwareHosts}.Delay(kind)
}

// limits returns what is known about a 1-based connection.
func (c *Config) limits(connection int) Limits {
	if l, ok := c.Connections[connection]; ok {
		return l
	}
	return c.Default
}

// observer returns the observer's configuration. hostDelay bounds the delays of a connection by its local ACK timeout.
func (c *Config) observer(hostDelay func(Limits) int64) observer.Config {
	o := observer.Config{Default: c.Default.observer(hostDelay)}
	if len(c.Connections) > 0 {
		o.Connections = make(map[int]*observer.Limits, len(c.Connections))
		for i, l := range c.Connections {
			limits := l.observer(hostDelay)
			o.Connections[i] = &limits
		}
	}
	return o
}

func (l Limits) observer(hostDelay func(Limits) int64) observer.Limits {
	return observer.Limits{
		TimeoutNS: l.TimeoutNS, HostDelayNS: hostDelay(l), Retry: observer.Limit(l.Retry),
		RNRRetry: observer.Limit(l.RNRRetry), AtRest: l.AtRest,
	}
}
