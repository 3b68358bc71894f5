package echo_test

import (
	"bytes"
	"testing"

	"candela.dev/candela/link/echo"
	"candela.dev/candela/packet"
)

func TestAnAnswerHasTheNumberOfItsRequest(t *testing.T) {
	own := packet.MAC{2, 0, 0, 0, 0, 7}
	frame := echo.Request(0x0102030405060708)
	if _, ok := echo.Number(frame); ok || !echo.Is(frame) || len(frame) != echo.Length {
		t.Fatalf("request: % x", frame)
	}
	if !echo.Answer(frame, own) {
		t.Fatal("a request was not answered")
	}
	if n, ok := echo.Number(frame); !ok || n != 0x0102030405060708 {
		t.Errorf("number %#x, %t", n, ok)
	}
	if !bytes.Equal(frame[:6], echo.Source[:]) || !bytes.Equal(frame[6:12], own[:]) {
		t.Errorf("addresses: % x", frame[:12])
	}
	if echo.Answer(frame, own) {
		t.Error("an answer was answered")
	}
}

func TestFramesOfTheTrafficAreNotEchoes(t *testing.T) {
	frame := echo.Request(1)
	for n := range frame {
		if short := frame[:n]; n < 35 && (echo.Is(short) || echo.Answer(short, packet.MAC{})) {
			t.Errorf("%d bytes pass for an echo", n)
		}
	}
	for _, at := range []int{12, 13, 14, 25} { // type and magic
		other := bytes.Clone(frame)
		other[at] ^= 1
		if _, ok := echo.Number(other); ok || echo.Is(other) || echo.Answer(other, packet.MAC{}) {
			t.Errorf("byte %d does not matter", at)
		}
	}
}
