package injectorpb

// MultiQueue is the name of the property of a switch that receives with several queues at once: its sequence numbers
// and stamps may disagree between ports and queues.
const MultiQueue = "multi-queue"
