package main

import (
	"fmt"
	"net"
	"os"
)

// tellReady tells the service manager, if one started this process, that it serves (sd_notify(3)): only then is the
// unit up.
func tellReady() error {
	path := os.Getenv("NOTIFY_SOCKET")
	if path == "" {
		return nil
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return fmt.Errorf("tell the service manager: %w", err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("READY=1")); err != nil {
		return fmt.Errorf("tell the service manager: %w", err)
	}
	return nil
}
