package switchtest

import (
	"cmp"
	"fmt"

	"candela.dev/candela/generator/parameter"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// queueing are the settings of queues, buffer and scheduler that every switch has whose model does not describe its
// own.
func queueing() parameter.Table {
	const most, mostQueues = 1 << 40, 8
	return parameter.Table{
		{Name: "queues", Kind: parameter.Integer, Unit: "queues", Default: "1", Min: 1, Max: mostQueues,
			Doc: "Queues of data at each port: a packet waits in that of its class, a higher class in the last. Each is as " +
				"large as the model says."},
		{Name: "buffer-bytes", Kind: parameter.Integer, Unit: "bytes", Default: "0", Max: most,
			Doc: "Buffer shared by the queues of data of all ports, besides their own limits; 0: none. Queues of headers " +
				"keep their own memory."},
		{Name: "buffer-alpha", Kind: parameter.Number, Default: "0", Max: 1024,
			Doc: "Dynamic threshold (Choudhury and Hahne): a queue may hold so many times the free bytes of the shared " +
				"buffer; 0: none."},
		{Name: "scheduler", Kind: parameter.Word, Words: []string{"strict", "fifo", "wrr", "dwrr"}, Optional: true,
			Doc: "How a port chooses among its queues: the highest first, by arrival, or by weights in packets or bytes. By " +
				"default strict, if the model says nothing."},
		{Name: "weights", Kind: parameter.Integers, Max: 1 << 16,
			Doc: "Weight of each queue of data for wrr and dwrr; 0: strictly before the others; none given: 1 each."},
		{Name: "quantum-bytes", Kind: parameter.Integer, Unit: "bytes", Default: "1500", Min: 1, Max: 1 << 20,
			Doc: "Of dwrr: bytes of credit for each weight and round."},
		{Name: "per-queue", Kind: parameter.List, Doc: "Queues of data that differ from the others.",
			Items: parameter.Table{
				{Name: "queue", Kind: parameter.Integer, Required: true, Max: mostQueues - 1, Doc: "The queue, from 0."},
				{Name: "max-bytes", Kind: parameter.Integer, Unit: "bytes", Optional: true, Min: 64, Max: 1 << 30,
					Doc: "Room of the queue."},
				{Name: "alpha", Kind: parameter.Number, Optional: true, Max: 1024, Doc: "Its buffer-alpha."},
			}},
	}
}

// applyQueueing writes the settings of queueing into the description of a switch.
func applyQueueing(v parameter.Values, s *fabric.SwitchSpec) error {
	if v.Table().Find("per-queue") < 0 || len(s.Queues) == 0 {
		return nil
	}
	n := v.Int("queues")
	data, others := s.Queues[0], s.Queues[1:]
	queues := make([]fabric.QueueSpec, 0, n+len(others))
	for range n {
		queues = append(queues, data)
	}
	s.Queues = append(queues, others...)
	if err := applyScheduler(v, s, n); err != nil {
		return err
	}
	size, alpha := v.Int("buffer-bytes"), v.Number("buffer-alpha")
	if size > 0 {
		s.Buffer.Bytes = size
		for i := n; i < len(s.Queues); i++ {
			s.Queues[i].Private = true
		}
	}
	for i := range n {
		s.Queues[i].Alpha = alpha
	}
	for i, m := range v.List("per-queue") {
		q := m.Int("queue")
		if q >= n {
			return &settingError{fmt.Sprintf("per-queue[%d].queue", i), fmt.Sprintf("there is no queue %d: queues is %d", q, n)}
		}
		if m.Has("max-bytes") {
			s.Queues[q].MaxBytes = m.Int("max-bytes")
		}
		if m.Has("alpha") {
			s.Queues[q].Alpha = m.Number("alpha")
		}
		alpha = max(alpha, m.Number("alpha"))
	}
	if alpha > 0 && size == 0 {
		return &settingError{"buffer-alpha", "is a share of a shared buffer: give buffer-bytes, too"}
	}
	return nil
}

// applyScheduler writes the scheduler of a port with n queues of data.
func applyScheduler(v parameter.Values, s *fabric.SwitchSpec, n int) error {
	if word := v.Word("scheduler"); word != "" {
		s.Scheduler.Kind = fabric.SchedulerKind(word)
	}
	s.Scheduler.Quantum = v.Int("quantum-bytes")
	kind, weights := cmp.Or(s.Scheduler.Kind, fabric.Strict), v.Integers("weights")
	switch {
	case len(weights) > 0 && kind != fabric.WRR && kind != fabric.DWRR:
		return &settingError{"weights", "are of the schedulers wrr and dwrr; this one is " + string(kind)}
	case len(weights) > 0 && len(weights) != n:
		return &settingError{"weights", fmt.Sprintf("%d are given for %d queues of data", len(weights), n)}
	}
	var all []int
	for i := range s.Queues {
		w := 1
		switch j := i - n + 1; { // j: the queue in the model, whose first is that of data
		case i < n && len(weights) > 0:
			w = int(weights[i])
		case len(s.Scheduler.Weights) > max(j, 0):
			w = s.Scheduler.Weights[max(j, 0)]
		}
		all = append(all, w)
	}
	s.Scheduler.Weights = all
	return nil
}

// settingError is an error about a parameter of a switch.
type settingError struct{ key, what string }

func (e *settingError) Error() string { return e.key + ": " + e.what }
