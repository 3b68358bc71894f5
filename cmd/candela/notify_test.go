package main

import (
	"net"
	"path/filepath"
	"testing"
	"time"
)

func TestAServiceManagerIsNotifiedWhenAServiceServes(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	if err := notifyReady(); err != nil {
		t.Errorf("without a service manager: %v", err)
	}
	path := filepath.Join(t.TempDir(), "notify")
	t.Setenv("NOTIFY_SOCKET", path)
	if err := notifyReady(); err == nil {
		t.Error("a service manager that does not listen is no error")
	}
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer manager.Close()
	if err := notifyReady(); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 100)
	_ = manager.SetReadDeadline(time.Now().Add(time.Minute))
	if n, err := manager.Read(b); err != nil || string(b[:n]) != "READY=1" {
		t.Errorf("it was told %q, %v", b[:n], err)
	}
}
