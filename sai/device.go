package sai

// Device describes a switch to a judge, besides its packets and counters.
type Device struct {
	Settings  Settings
	Ports     []string // names by number
	Strict    bool     // every port has strict priority, highest queue first
	PoolBytes int      // shared buffer
}
