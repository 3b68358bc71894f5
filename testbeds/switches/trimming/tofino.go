package trimming

// Tofino is DeflectOnDrop with the control loop of sections 4 and 5 of the paper: a packet that leaves a recirculation
// port's queue notifies all pipelines, or its own, that its output port is congested (Loop). The notification takes the
// latency of a recirculation; the bandwidth of UPDATE and NOTIFY messages is not modelled.
type Tofino struct{ DeflectOnDrop }
