package config

// How queues are measured.
const (
	QueuesExactly = "exact"
	QueuesSampled = "sampled"
	QueuesOff     = "off"
)

// exactHosts is up to how many hosts queues are measured exactly unless the test says otherwise.
const exactHosts = 64

// QueueStatistics returns how queues are measured.
func (t *SwitchTest) QueueStatistics() string { return wordOf(t.queues) }

const queuesDoc = "How much each queue holds over time. `exact`: every change counts. `sampled`: queues are looked " +
	"at every us for 2 ms, every 2 us until 4 ms, and so on, which costs little in large networks. By default `exact` " +
	"up to 64 hosts."

func queuesField() field {
	return field{key: "queue-statistics", doc: queuesDoc, defDoc: "by the number of hosts",
		kind: optional[status]{enum[status]{values: []status{QueuesExactly, QueuesSampled, QueuesOff}}},
		at:   at(func(t *SwitchTest) **status { return &t.queues })}
}

// validateQueues completes how queues are measured.
func (d *decoder) validateQueues(t *SwitchTest, hosts int) {
	if t.queues == nil {
		of := status(QueuesSampled)
		if hosts <= exactHosts {
			of = QueuesExactly
		}
		t.queues = &of
	}
	if t.Results.queues != nil && *t.queues == QueuesOff {
		d.problemAt("results.queues", "needs queue-statistics", "queue-statistics: exact or sampled")
	}
}
