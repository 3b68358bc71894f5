package lock

// register is an array of registers that passes access, in the order of the stages of a pipeline: a packet meets each
// array once, reads the entry of its lock, and may write it. A slot holds mode, transaction and client; what the model
// keeps with it for leases (when it was granted) is the control plane's.
type register uint8

const (
	regPhase   register = iota // what the control plane has set
	regIndex                   // which entry a transaction has, for TIDCheck and Dedup
	regBack                    // requests ever pushed back
	regRoom                    // free slots and buffered requests: a pair in one register
	regSent                    // requests ever sent to be buffered
	regHead                    //
	regTail                    //
	regSlot                    // requests
	regQueued                  // entries by mode: a pair in one register
	regBusy                    // a chain is recirculating
	regPushing                 // a push request has no answer yet
	registers
)

// meter counts the accesses of a pass, and those of an array whose stage is before one that was accessed.
type meter struct {
	accesses  [registers]int
	last      register
	backwards int
}

// touch counts an access.
func (d *DataPlane) touch(r register) {
	if m := d.meter; m != nil {
		m.accesses[r]++
		if r < m.last {
			m.backwards++
		}
		m.last = max(m.last, r)
	}
}
