package lock_test

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"candela.dev/candela/link/linktest"
)

// simpleSwitch is bmv2's simple_switch between interfaces of a network namespace.
type simpleSwitch struct {
	command *exec.Cmd
	ports   map[uint16]int // sockets at the far ends of its interfaces
	output  string         // file of what it said
	log     string         // file of what it did
	skip    int            // packets of its log that were sent to see whether it has started
}

const (
	simpleStart = 20 * time.Second
	simplePort  = 9090 // of its control plane, in the namespace
)

// startSimpleSwitch compiles the program with so many locks and starts the switch with the given ports. It ends with
// the test.
func startSimpleSwitch(t *testing.T, macro string, locks int, ports []uint16) *simpleSwitch {
	t.Helper()
	dir := t.TempDir()
	source, object := filepath.Join(dir, "lock.p4"), filepath.Join(dir, "lock.json")
	if err := os.WriteFile(source, []byte(p4WithEntries(t, locks)), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "p4c-bm2-ss", "-D"+macro, "-o", object, source).
		CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	s := &simpleSwitch{ports: make(map[uint16]int), output: filepath.Join(dir, "output"), log: filepath.Join(dir, "log")}
	args := []string{"--log-file", s.log, "--log-level", "debug", "--log-flush", "--log-file-max-size", "1000000000",
		"--thrift-port", strconv.Itoa(simplePort)}
	for _, p := range ports {
		near, far := fmt.Sprintf("s%d", p), fmt.Sprintf("h%d", p)
		linktest.Veth(t, near, far)
		args = append(args, "--interface", fmt.Sprintf("%d@%s", p, near))
		s.ports[p] = rawSocket(t, far)
	}
	linktest.SetUp(t, "lo")
	output, err := os.Create(s.output)
	if err != nil {
		t.Fatal(err)
	}
	defer output.Close()
	s.command = exec.Command("simple_switch", append(args, object)...)
	s.command.Stdout, s.command.Stderr, s.command.Dir = output, output, dir
	s.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: unix.SIGKILL}
	if err := s.command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = s.command.Process.Kill()
		_ = s.command.Wait()
	})
	s.await(t, ports[0])
	return s
}

// rawSocket opens an interface of the namespace for reading and writing frames.
func rawSocket(t *testing.T, name string) int {
	t.Helper()
	card, err := net.InterfaceByName(name)
	if err != nil {
		t.Fatal(err)
	}
	const all = unix.ETH_P_ALL<<8&0xff00 | unix.ETH_P_ALL>>8
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		t.Cleanup(func() { _ = unix.Close(fd) })
		err = unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: card.Index})
	}
	if err != nil {
		t.Fatal(err)
	}
	return fd
}

// await waits until the switch forwards, and has its clone session.
func (s *simpleSwitch) await(t *testing.T, port uint16) {
	t.Helper()
	deadline := time.Now().Add(simpleStart)
	var err error
	for err = s.addMirror(); err != nil && time.Now().Before(deadline); err = s.addMirror() {
		time.Sleep(10 * time.Millisecond)
	}
	if err != nil {
		said, _ := os.ReadFile(s.output)
		t.Fatalf("simple_switch does not answer: %v\n%s", err, said)
	}
	for {
		s.send(t, port, otherFrame(uint32(port), 0))
		if len(s.receive(t, 50*time.Millisecond)[port]) > 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("simple_switch does not forward")
		}
	}
	s.receive(t, 100*time.Millisecond) // what was sent earlier
	s.skip = len(s.processed(t))
}

// addMirror has the control plane make the clone session 1, by Thrift's binary protocol: simple_switch's
// mirroring_session_add(1: i32 id, 2: {1: i32 port}), which answers without a field, or with an exception.
func (s *simpleSwitch) addMirror() error {
	conn, err := net.DialTimeout("tcp4", fmt.Sprintf("127.0.0.1:%d", simplePort), time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(2 * time.Second))
	const call, reply, tI32, tStruct = 0x80010001, 0x80010002, 8, 12
	const session, port = 1, 510
	name := "simple_switch:mirroring_session_add"
	b := binary.BigEndian.AppendUint32(nil, call)
	b = binary.BigEndian.AppendUint32(b, uint32(len(name)))
	b = append(b, name...)
	b = append(b, 0, 0, 0, 0) // number of the call
	b = append(b, tI32, 0, 1, 0, 0, 0, session)
	b = append(b, tStruct, 0, 2, tI32, 0, 1, 0, 0, port>>8, port&0xff, 0, 0)
	if _, err := conn.Write(b); err != nil {
		return err
	}
	read := bufio.NewReader(conn)
	var head [8]byte
	if _, err := io.ReadFull(read, head[:]); err != nil {
		return err
	}
	rest := make([]byte, min(binary.BigEndian.Uint32(head[4:]), 1000)+5) // the name, the number, and the first field
	if _, err := io.ReadFull(read, rest); err != nil {
		return err
	}
	if kind := binary.BigEndian.Uint32(head[:]); kind != reply || rest[len(rest)-1] != 0 {
		return fmt.Errorf("the clone session is refused: message %#x, field %d", kind, rest[len(rest)-1])
	}
	return nil
}

func (s *simpleSwitch) send(t *testing.T, port uint16, frame []byte) {
	t.Helper()
	if _, err := unix.Write(s.ports[port], frame); err != nil {
		t.Fatal(err)
	}
}

// receive returns the frames that leave the switch, by port, until none has for a time.
func (s *simpleSwitch) receive(t *testing.T, quiet time.Duration) map[uint16][][]byte {
	t.Helper()
	left := make(map[uint16][][]byte)
	var buffer [2048]byte
	for until := time.Now().Add(quiet); time.Now().Before(until); {
		var set []unix.PollFd
		var of []uint16
		for port, fd := range s.ports {
			set, of = append(set, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN}), append(of, port)
		}
		if _, err := unix.Poll(set, int(quiet.Milliseconds())+1); err != nil && !errors.Is(err, unix.EINTR) {
			t.Fatal(err)
		}
		for i, port := range of {
			for set[i].Revents != 0 {
				n, _, err := unix.Recvfrom(s.ports[port], buffer[:], 0)
				if errors.Is(err, unix.EAGAIN) {
					break
				} else if err != nil {
					t.Fatal(err)
				}
				left[port] = append(left[port], append([]byte(nil), buffer[:n]...))
				until = time.Now().Add(quiet)
			}
		}
	}
	return left
}

// pass is one of a packet through the ingress pipeline.
type simplePass struct {
	packet int // number; the same for later passes of a packet
	port   uint16
	first  bool
}

var processing = regexp.MustCompile(`\[(\d+)\.\d+\] \[cxt 0\] Processing packet received on port (\d+)`)

// processed returns the passes through ingress in their order.
func (s *simpleSwitch) processed(t *testing.T) (list []simplePass) {
	t.Helper()
	text, err := os.ReadFile(s.log + ".txt")
	if errors.Is(err, os.ErrNotExist) {
		text, err = os.ReadFile(s.log)
	}
	if err != nil {
		t.Fatal(err)
	}
	known := make(map[int]bool)
	for _, m := range processing.FindAllSubmatch(text, -1) {
		packet, _ := strconv.Atoi(string(m[1]))
		port, _ := strconv.Atoi(string(m[2]))
		list = append(list, simplePass{packet, uint16(port), !known[packet]})
		known[packet] = true
	}
	return list
}
