package switchtest

import "cmp"

// parallel returns how many workers simulate the network, and why there are fewer than asked for. Nothing that a run
// writes depends on it but its log.
func (r *run) parallel() (workers int, why string) {
	if r.Workers < 2 {
		return 1, ""
	}
	switch {
	case r.plan.live:
		return 1, "frames are real"
	case r.plan.Watch != nil:
		return 1, "a measurement reads the network while it runs"
	}
	for _, t := range transports() {
		judged := t.Judge != nil && r.plan.speaks(&t) && (!r.plan.Streamed() || r.plan.Test.Judge.Flows > 0)
		if judged && t.Judge.AtOnce != nil {
			why = cmp.Or(why, t.Judge.AtOnce(&r.plan.Spec))
		}
	}
	if why != "" {
		return 1, why
	}
	return r.Workers, ""
}

// simulated says for the log how the traffic was simulated.
func (r *run) simulated() []any {
	if r.Workers < 2 {
		return nil
	}
	p, why := r.net.Parallelism(), r.alone
	if why == "" {
		why = p.Undivided
	}
	list := []any{"workers", p.Partitions}
	if why != "" {
		list = append(list, "workers_why", why)
	}
	if p.Partitions > 1 {
		list = append(list, "window_ns", p.Window.Nanoseconds(), "windows", p.Windows, "windows_of_one_worker", p.Alone,
			"longest_hops", p.Longest)
	}
	return list
}
