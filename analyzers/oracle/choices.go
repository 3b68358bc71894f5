package oracle

// Choice is a freedom or duty of an endpoint as the oracle reads the standard. docs/reference/oracle-choices.md lists
// all.
type Choice struct {
	Endpoint string
	What     string
	Clause   string // of IBTA volume 1
}

// Choices returns what the endpoints of the oracle may and must do.
func Choices() []Choice {
	return []Choice{
		{"requester", "New requests take consecutive PSNs; a READ takes one for each response. A message is ONLY, or " +
			"FIRST, MIDDLE… and LAST of one operation; a WRITE has the length that its RETH announces. FIRST and MIDDLE fill " +
			"the path MTU, LAST has at least one byte, ONLY may have none.", "9.7.3.1; 9.7.4.1.2; 9.7.4.1.6"},
		{"requester", "It may send any number of requests before an acknowledgement, and stop sending at any time.",
			"9.7.3.1"},
		{"requester", "An ACK, NAK or RNR NAK acknowledges every SEND and WRITE before its PSN. A READ or atomic that has " +
			"no complete answer stops the acknowledgement there: an implied NAK.", "9.7.5.1.2; 9.7.6.1.1"},
		{"requester", "A READ response or atomic ACK acknowledges every SEND and WRITE before it. If an earlier READ or " +
			"atomic has no complete answer it is an implied NAK and is dropped.", "9.7.5.1.2; 9.7.6.1.1"},
		{"requester", "It goes back to the oldest unacknowledged PSN for a sequence NAK or implied NAK, at once or later; " +
			"meanwhile it may go on. If that is acknowledged before it restarts, it goes back to what is the oldest then.",
			"9.7.5.2; 9.7.6.1.1"},
		{"requester", "It goes back to the oldest unacknowledged PSN when the retry timer expires: T after the last " +
			"progress and after the latest transmission of that request. It may be late, and progress may come first: it goes " +
			"back to what is the oldest then.", "9.7.6.1.3"},
		{"requester", "A round of retransmission is consecutive. It leaves out only what is acknowledged.", "9.7.2"},
		{"requester", "A retransmission is the same packet. AckReq may differ. A READ asks for exactly what is missing: it " +
			"starts at the first missing response and keeps the end.", "9.7.2; 9.4.4"},
		{"requester", "After an RNR NAK it waits at least as long as the timer field says before it sends that request " +
			"again. It may send later requests meanwhile. Progress ends the wait.", "9.7.5.2.8"},
		{"requester", "Each restart without progress counts against retry_cnt, after an RNR NAK against rnr_retry (7: " +
			"without limit). If a counter is used up it sends nothing more, whatever comes after that. If retry_cnt is not " +
			"known it may be 0. An RNR NAK that comes during the wait for another may cost a retry, and so may an implied NAK.",
			"9.9.2.1.1"},
		{"requester", "After a fatal NAK it sends nothing more. If a READ or atomic before that PSN has no complete answer " +
			"it may take it for an implied NAK.", "9.9.2.4; 10.3.1; 9.7.6.1.1"},
		{"requester", "Answers to what is acknowledged are dropped. An answer that the responder must not send (a PSN " +
			"beyond the last request, the wrong kind) may be dropped, taken as it is, taken for an implied NAK, or be fatal: " +
			"the standard leaves it open and the responder is to blame.", "9.7.5.1"},
		{"requester", "At rest everything is acknowledged, or a retry counter is used up.", "9.7.1; 9.9.2.1.1"},

		{"responder", "Requests are executed in PSN order. Responses keep the order of their requests. Serving requests " +
			"one after the other covers any pipeline, which looks the same as receiving each a little later.",
			"9.7.4.1.1; 9.7.5.1.1"},
		{"responder", "A request with AckReq is acknowledged, by an ACK with its PSN or a later one, or by any later " +
			"response. ACKs that nobody asked for are allowed: with the latest PSN executed.", "9.7.5.1; 9.7.5.1.2"},
		{"responder", "A request out of order is answered by a sequence NAK with the expected PSN before any later " +
			"response; once per gap. It need not be sent if the missing request came before the next response left and, if " +
			"host delays are bounded, within two of them.", "9.7.4.1.1; 9.7.5.2"},
		{"responder", "A duplicate SEND or WRITE is acknowledged with its PSN or any later one that was executed; with " +
			"AckReq it must be, by a response that left after it had passed the tap.", "9.7.5.1.3"},
		{"responder", "A duplicate READ for any part of the original is answered again, from its PSN on. An atomic is " +
			"answered with the result of its first execution; if a later READ or atomic was executed, the result may be gone " +
			"and the duplicate dropped.", "9.4.4; 9.4.5; 9.7.5.1.3"},
		{"responder", "A repetition that arrives while the answer is still due may share the answer if that brings all " +
			"that the repetition asks for. It arrived in time if it passed the tap before that answer did.", "9.7.5.1.3"},
		{"responder", "The answer to a repeated READ or atomic may leave before the answers to requests that arrived " +
			"earlier and have later PSNs: responses keep the order of PSNs.", "9.7.5.1.1"},
		{"responder", "READ responses are consecutive and complete. They bring as many bytes as the READ asks for. FIRST, " +
			"MIDDLE, LAST or ONLY are those of the request, or those of the original for a repeated one (rule " +
			"gbn.replay-opcode is not the oracle's).", "9.4.4"},
		{"responder", "Any request that is next in order may get an RNR NAK. Later requests are then dropped silently " +
			"until that request comes again.", "9.7.5.2.8"},
		{"responder", "Any request that is next in order, or the next READ response, may get a fatal NAK. An invalid " +
			"request (opcode out of sequence, wrong length) must. Nothing is sent after it.",
			"9.7.4.1.2; 9.7.4.1.6; 9.7.5.2; 10.3.1"},
		{"responder", "The MSN counts at least the messages that the response answers (the first of several READ responses " +
			"may leave the READ out), at most those that can be complete when it is sent, and never falls. In RNR NAKs and " +
			"fatal NAKs it is exact. The answer to a duplicate may carry the count of its first time.", "9.7.7.1"},
		{"responder", "A duplicate that repeats nothing (from before the connection, a READ beyond the original, another " +
			"kind of atomic) may be dropped, answered or refused. An atomic where there was none has no result, and is " +
			"dropped or refused.", "9.7.5.1.3"},
		{"both", "Each host may be requester and responder. Neither waits for the other: what one has received shows " +
			"nothing about the other. A queue pair in error owes nothing as either; a responder has dealt with what arrived " +
			"before its host sent its last request.", "10.3.1"},
		{"responder", "At rest it owes no acknowledgement, NAK or READ response.", "9.7.5.1"},
	}
}
