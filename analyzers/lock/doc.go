// Package lock judges switches that are lock managers, by what their ports show: N1 to N15 of the reference model
// (netlock.md, section 10). It knows the wire format and the facts of a test, and no model.
//
// # Use
//
//	j, err := lock.New(facts) // candela.dev/candela/lock.Network
//	j.Packet(&p)              // every packet that enters, leaves or is dropped, in order of time
//	result := j.Finish(end)
//
// Packets come from [Decoder.Decode] (captures) or from the taps of a simulated network: Time, Switch, Port, Stage,
// Size and ID of [trace.SwitchTap], addresses, UDP ports and header of the packet. Size is without FCS. Packets that
// are not of the lock manager need only Flow and Digest, both not 0, for N15, and Size for how long the port was busy.
//
// # Facts
//
// The orchestrator fills them from the configuration, never from what the model did:
//
//   - Pipeline and Recirculation are the delays of the configuration; Most is what an implementation may take longer.
//   - Ports have the rate of the link. A rate of 0 means that the wait at the port is not known: delays and orders that
//     depend on it are then not judged.
//   - Locks and Slots are what the control plane was told to install. A change is told by [Judge.Placed]. Without
//     Placed neither placement nor occupancy is judged.
//   - Complete holds if no tap missed a packet and drops inside the switch are shown. A lab sets it if all dumpers
//     counted no loss; a loss at a known time is told by [Judge.Gap]. Otherwise what would be a violation is counted
//     under "unsure" and one note says so.
//   - Uncertainty is how far time stamps of two ports may be apart, 0 in a simulation. It must be less than Pipeline.
//   - Standby is set at the backup. [Judge.Stopping], [Judge.Started] and [Judge.TakesOver] tell what the test does to
//     switches, [Judge.ServerStopped] what it does to a lock server.
//   - ServersTimed says that it is known how long servers take. Otherwise how long locks of servers are idle is not
//     judged. A server decides out of sight: what it grants is judged by what it was sent, and what has come from it.
//
// # What is certain
//
// A request is (lock, transaction, client address, thread). An order is judged when the overtaken request is granted,
// since it was then certainly accepted; a request that never is granted is judged at the end. When a switch decided
// lies between the start of the busy period of the egress port and the departure, less the pipeline. All tolerances
// follow from that interval, from Pipeline, Recirculation, Lease and Poll, and from Uncertainty; none is chosen.
package lock
