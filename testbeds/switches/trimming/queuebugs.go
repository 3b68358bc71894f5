package trimming

import (
	"slices"

	"candela.dev/candela/generator/parameter"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// queueFault is a seeded bug of queues, buffer or scheduler: the switch has something else than its test declares.
type queueFault struct {
	parameter.Bug
	distort func(s *fabric.SwitchSpec)
}

func queueFaults() []queueFault {
	each := func(f func(q *fabric.QueueSpec)) func(*fabric.SwitchSpec) {
		return func(s *fabric.SwitchSpec) {
			for i := range s.Queues {
				f(&s.Queues[i])
			}
		}
	}
	return []queueFault{
		{parameter.Bug{Name: "overfills-buffer", Doc: "The shared buffer takes half as much again.", Rule: "queue.buffer"},
			func(s *fabric.SwitchSpec) { s.Buffer.Bytes += s.Buffer.Bytes / 2 }},
		{parameter.Bug{Name: "overfills-queue", Doc: "Queues take half as much again.", Rule: "queue.limit"},
			each(func(q *fabric.QueueSpec) { q.MaxBytes += q.MaxBytes / 2; q.MaxPackets += q.MaxPackets / 2 })},
		{parameter.Bug{Name: "ignores-alpha", Doc: "Queues have no dynamic threshold.", Rule: "queue.threshold"},
			each(func(q *fabric.QueueSpec) { q.Alpha = 0 })},
		{parameter.Bug{Name: "double-alpha", Doc: "Dynamic thresholds have twice their alpha.", Rule: "queue.threshold"},
			each(func(q *fabric.QueueSpec) { q.Alpha *= 2 })},
		{parameter.Bug{Name: "refuses-with-room", Doc: "Queues take only three quarters of what they may.",
			Rule: "queue.refused"},
			each(func(q *fabric.QueueSpec) { q.MaxBytes -= q.MaxBytes / 4; q.Alpha *= 0.75 })},
		{parameter.Bug{Name: "idles", Doc: "Ports pause for 40 byte times after each frame.", Rule: "queue.idle"},
			func(s *fabric.SwitchSpec) { s.Gap = 40 }},
		{parameter.Bug{Name: "sends-early", Doc: "Ports shorten the gap between frames by 20 byte times.",
			Rule: "queue.rate"},
			func(s *fabric.SwitchSpec) { s.Gap = -20 }},
		{parameter.Bug{Name: "ignores-priority", Doc: "Queues are served by arrival.", Rule: "queue.priority"},
			func(s *fabric.SwitchSpec) { s.Scheduler.Kind = fabric.FIFO }},
		{parameter.Bug{Name: "reversed-weights", Doc: "The weights of queues are in reverse order.", Rule: "queue.share"},
			func(s *fabric.SwitchSpec) { slices.Reverse(s.Scheduler.Weights) }},
		{parameter.Bug{Name: "weights-in-packets", Doc: "Weights are of packets instead of bytes.", Rule: "queue.share"},
			func(s *fabric.SwitchSpec) { s.Scheduler.Kind = fabric.WRR }},
	}
}

func queueBugs() []parameter.Bug {
	var bugs []parameter.Bug
	for _, f := range queueFaults() {
		bugs = append(bugs, f.Bug)
	}
	return bugs
}

// distort is [switches.Model.Distort].
func distort(bugs []string, s *fabric.SwitchSpec) {
	for _, f := range queueFaults() {
		if slices.Contains(bugs, f.Name) {
			f.distort(s)
		}
	}
}
