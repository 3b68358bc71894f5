package sai

// Device is what a judge has to know of a switch beside its packets and counters.
type Device struct {
	Settings  Settings
	Ports     []string // names by number
	Strict    bool     // a port serves its highest queue first, always
	PoolBytes int      // shared buffer
}
