package tcp_test

import (
	"os"
	"slices"
	"testing"

	"candela.dev/candela/analyzers/cause/causetest"
	"candela.dev/candela/analyzers/tcp"
)

// book keeps what the tests of this package make the analyzer report.
var book = causetest.NewBook(tcp.Causes())

func TestMain(m *testing.M) { os.Exit(book.Main(m)) }

func TestEveryRuleHasCausesWithSentences(t *testing.T) {
	causetest.Table(t, tcp.Rules(), tcp.Causes())
}

func TestWindowsAndWhatIsMissingAreJudgedByTheRFCs(t *testing.T) {
	acks := func(us int, at uint32, window uint64) []step {
		return []step{{us: us, sent: true, ack: true, at: at, window: window},
			{us: us + 5, ack: true, at: at, window: window}}
	}
	second := slices.Concat(window(0, 2), sack(15, 0, 3000, 5000), []step{{us: 25, sent: true, at: 5000}, {us: 26, at: 5000}})
	second = slices.Clip(second)
	for _, tt := range []struct {
		name    string
		steps   []step
		drained bool
		want    []string
	}{
		{"a window of 1000 bytes is filled",
			slices.Concat(window(), acks(20, 5000, 1000), []step{{us: 30, sent: true, at: 5000}}), false, nil},
		{"a segment reaches beyond it",
			slices.Concat(window(), acks(20, 5000, 500), []step{{us: 30, sent: true, at: 5000}}), false,
			[]string{"tcp.receive-window"}},
		{"a window moves on", slices.Concat(window(), acks(20, 5000, 2000), acks(30, 5000, 3000)), true, nil},
		{"a window moves back", slices.Concat(window(), acks(20, 5000, 2000), acks(30, 5000, 1000)), true,
			[]string{"tcp.window-shrinks"}},
		{"a segment after the gap is answered without a block", append(window(0), sack(20, 0, 0, 0)...), false,
			[]string{"tcp.sack-missing"}},
		{"a segment after a second gap is answered with its block", append(second, sack(27, 0, 3000, 6000)...), false, nil},
		{"and with that of the first gap", append(second, sack(27, 0, 1000, 2000)...), false,
			[]string{"tcp.sack-missing"}},
		{"the first gap is filled, and the block is that of the second", slices.Concat(second, sack(27, 0, 3000, 6000),
			[]step{{us: 33, sent: true}, {us: 34}}, sack(35, 2000, 3000, 6000)), false, nil},
		{"a segment after the gap is answered late", append(window(0), sack(20_011, 0, 1000, 5000)...), false,
			[]string{"tcp.duplicate-ack-missing", "tcp.timeout-missing"}},
		{"all is acknowledged late", append(window(), step{us: 600_010, sent: true, ack: true, at: 5000}), false,
			[]string{"tcp.ack-missing", "tcp.timeout-missing"}},
		{"the first is lost, and nothing follows", window(0), true,
			[]string{"tcp.timeout-missing", "tcp.incomplete", "tcp.duplicate-ack-missing"}},
		{"one of five is acknowledged", append(window(), sack(20, 1000, 0, 0)...), true,
			[]string{"tcp.timeout-missing", "tcp.incomplete", "tcp.ack-missing"}},
		{"a SACKed segment goes again",
			append(append(window(0), sack(20, 0, 1000, 5000)...), step{us: 40, sent: true, at: 1000}), false,
			[]string{"tcp.retransmit-spurious"}},
	} {
		if got := judgeAll(config(), tt.steps, tt.drained); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}
