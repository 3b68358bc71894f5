//go:build linux

package live

import (
	"errors"
	"testing"
	"time"

	"candela.dev/candela/link"
	"candela.dev/candela/link/linktest"
)

func TestCopiesThatDripInWaitForAReaderThatHasNoCPU(t *testing.T) {
	linktest.Namespace(t, func() {
		linktest.Veth(t, "a", "b")
		ring, err := link.OpenRing(link.RingConfig{Interface: "b", BlockBytes: blockBytes, Blocks: blocks,
			BlockTimeout: blockTimeout, Snap: 128})
		if err != nil {
			t.Fatal(err)
		}
		defer ring.Close()
		sender, err := link.OpenSender("a")
		if err != nil {
			t.Fatal(err)
		}
		defer sender.Close()
		const copies = 50
		for range copies {
			if err := errors.Join(sender.Queue(make([]byte, 128)), sender.Flush()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(blockTimeout + blockTimeout/2) // the next one is in another block
		}
		read := 0
		for {
			block, err := ring.Wait(100 * time.Millisecond)
			if err != nil {
				t.Fatal(err)
			}
			if block == nil {
				break
			}
			read += block.Len()
			block.Release()
		}
		if stats, err := ring.Stats(); err != nil || stats.Dropped > 0 || read != copies {
			t.Errorf("read %d of %d copies: %+v, %v", read, copies, stats, err)
		}
	})
}
