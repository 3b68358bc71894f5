package lock

// register is an array of registers that a pass accesses. One that is read, changed and written counts once.
type register uint8

const (
	regPhase   register = iota // what the control plane has set
	regRoom                    // free slots and buffered requests, a pair as wide as a register may be
	regSent                    // requests ever sent to be buffered
	regQueued                  // entries by mode, a pair
	regBusy                    // a chain is recirculating
	regHead                    //
	regTail                    //
	regSlot                    // requests
	regPushing                 // a push request has no answer yet
	regIndex                   // which entry a transaction has
	registers
)

// meter counts the accesses of a pass.
type meter [registers]int

// touch counts an access.
func (d *DataPlane) touch(r register) {
	if d.meter != nil {
		d.meter[r]++
	}
}
