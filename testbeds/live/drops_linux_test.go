package live

import (
	"testing"

	"golang.org/x/sys/unix"
)

// A run whose host lost datagrams must be invalid, so what a socket drops must be counted.
func TestDropsOfASocketAreCounted(t *testing.T) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Close(fd); err != nil {
			t.Error(err)
		}
	}()
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, 4096); err != nil {
		t.Fatal(err)
	}
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	at, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := drops(fd); err != nil || n != 0 {
		t.Fatalf("%d dropped before anything came: %v", n, err)
	}
	const sent = 200
	for range sent {
		if err := unix.Sendto(fd, make([]byte, 100), 0, at); err != nil {
			t.Fatal(err)
		}
	}
	received := 0
	for {
		if _, _, err := unix.Recvfrom(fd, make([]byte, 100), 0); err != nil {
			break
		}
		received++
	}
	if n, err := drops(fd); err != nil || received == sent || int(n) != sent-received {
		t.Errorf("%d sent, %d received, %d dropped: %v", sent, received, n, err)
	}
	var pipe [2]int
	if err := unix.Pipe(pipe[:]); err != nil {
		t.Fatal(err)
	}
	if _, err := drops(pipe[0]); err == nil {
		t.Error("what is no socket has drops")
	}
	for _, end := range pipe {
		if err := unix.Close(end); err != nil {
			t.Error(err)
		}
	}
}
