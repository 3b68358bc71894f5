package generator

// PSNs returns the number of PSNs of all messages of t.
func (t Traffic) PSNs() int64 {
	perCycle := t.cycle()
	if perCycle == 0 {
		return 0
	}
	n := int64(t.Messages/len(t.Verbs)) * perCycle
	for i := range t.Messages % len(t.Verbs) {
		n += int64(t.message(i).PSNs)
	}
	return n
}

// Locate returns the message of a relative PSN without iterating over the schedule.
func (t Traffic) Locate(psn int64) (Message, bool) {
	if psn < 1 || psn > t.PSNs() {
		return Message{}, false
	}
	perCycle := t.cycle()
	cycles := (psn - 1) / perCycle
	first := cycles*perCycle + 1
	for i := range t.Verbs {
		m := t.message(i)
		if psn < first+int64(m.PSNs) {
			m.Index, m.FirstPSN = int(cycles)*len(t.Verbs)+i, first
			return m, true
		}
		first += int64(m.PSNs)
	}
	return Message{}, false
}

// cycle returns the number of PSNs of one message of each verb.
func (t Traffic) cycle() (psns int64) {
	for i := range t.Verbs {
		psns += int64(t.message(i).PSNs)
	}
	return psns
}

// message returns message i without FirstPSN.
func (t Traffic) message(i int) Message {
	m := Message{Index: i, Verb: t.Verbs[i%len(t.Verbs)], Length: t.MessageSize}
	if m.Verb.IsAtomic() {
		m.Length = 8
	}
	m.PSNs = m.Verb.PSNs(m.Length, t.MTU)
	return m
}
