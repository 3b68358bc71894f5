package verbs

import (
	"encoding/hex"
	"slices"
	"strings"
	"testing"
)

// kernelsList is what Linux 6.1 answered on a guest with soft-RoCE while ib_write_bw ran, and one that had stopped;
// `rdma resource show qp` of iproute2 read there at the same time what the test expects.
const kernelsList = "080001000000000009000200727865300000000038011300" +
	"540014000800030001000000080015001600000008003c000600000008001c0098000000080016001600000008001700c5db4500080018006ea2f400" +
	"050019000000000005001a000200000005001b0003000000" +
	"540014000800030001000000080015001800000008003c000800000008001c00a20000000800160019000000080017005fb201000800180000000000" +
	"050019000000000005001a000200000005001b0002000000" +
	"540014000800030001000000080015001900000008003c000800000008001c00a2000000080016001a000000080017003c4c95000800180000000000" +
	"050019000000000005001a000200000005001b0002000000" +
	"38001400080003000100000008001500010000000c001d0069625f636f726500080018000200000005001a000100000005001b0003000000"

func kernelsBytes(t testing.TB) []byte {
	t.Helper()
	b, err := hex.DecodeString(kernelsList)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestTheKernelsQueuePairsAreReadAsRdmaReadsThem(t *testing.T) {
	got, err := parseQueuePairs(kernelsBytes(t))
	if err != nil {
		t.Fatal(err)
	}
	want := []QueuePair{
		{Port: 1, QPN: 22, Peer: 22, Send: 16032366, Receive: 4578245, Type: ReliableConnection, State: ReadyToSend,
			PID: 152},
		{Port: 1, QPN: 24, Peer: 25, Receive: 110431 + 768, Type: ReliableConnection, State: ReadyToReceive, PID: 162},
		{Port: 1, QPN: 25, Peer: 26, Receive: 9783601 + 779, Type: ReliableConnection, State: ReadyToReceive, PID: 162},
		{Port: 1, QPN: 1, Send: 2, Type: 1, State: ReadyToSend},
	}
	// The sums begin with what rdma read a moment earlier: some packets of 64 KiB messages had come in between.
	if !slices.Equal(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	var connected []bool
	for _, q := range got {
		connected = append(connected, q.Connected())
	}
	if !slices.Equal(connected, []bool{true, true, true, false}) {
		t.Errorf("connected: %v", connected)
	}
}

func TestADamagedListIsAnError(t *testing.T) {
	for name, text := range map[string]string{
		"an attribute that is longer than the message": "ff001300",
		"an attribute without its header":              "02001300",
		"a number of three bytes":                      "0f001300" + "0b001400" + "07001500010203",
	} {
		b, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := parseQueuePairs(b); err == nil || !strings.Contains(err.Error(), "damaged") {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// FuzzQueuePairs: whatever the kernel answers, there are no more queue pairs than bytes for them, and no number is out
// of range.
func FuzzQueuePairs(f *testing.F) {
	f.Add(kernelsBytes(f))
	f.Fuzz(func(t *testing.T, b []byte) {
		list, err := parseQueuePairs(b)
		if err != nil {
			return
		}
		const header = 4
		if len(list)*header > len(b) {
			t.Errorf("%d queue pairs in %d bytes", len(list), len(b))
		}
		for _, q := range list {
			if q.QPN >= 1<<24 || q.Peer >= 1<<24 || q.Send >= 1<<24 || q.Receive >= 1<<24 {
				t.Errorf("out of range: %+v", q)
			}
		}
	})
}
