package trace

import "candela.dev/candela/clock"

// QueueStage is what happens to a packet at a queue.
type QueueStage uint8

// Stages at queues.
const (
	Joined    QueueStage = 1 + iota // waits in the queue from now on
	Served                          // chosen by the scheduler of its port
	Withdrawn                       // taken out otherwise: by the mechanism, or as the switch stops
	Refused                         // the queue has no room for it
)

// QueueEvent is one packet at a queue of a port that leads outside.
type QueueEvent struct {
	Time     clock.Time
	Stage    QueueStage
	Port     int
	Queue    int
	ID       uint64
	Size     int
	Lossless bool // of a class under PFC: its room is that of the port it came by
}
