package injectorpb

// MultiQueue is the property of a switch that receives with several queues in parallel: its sequence numbers and
// timestamps may disagree between ports and queues.
const MultiQueue = "multi-queue"
