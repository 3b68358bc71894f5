package trimming

// Tofino is DeflectOnDrop with the control loop of sections 4 and 5 of the paper: a packet that leaves a recirculation
// port's queue tells all pipelines, or its own, that the port it was meant for is congested (Loop). The news takes as
// long as the recirculation; the bandwidth of UPDATE and NOTIFY messages is not modelled.
type Tofino struct{ DeflectOnDrop }
