package main

import (
	"fmt"
	"net"
	"os"
)

// notifyReady notifies the service manager that this process serves, if one started it (sd_notify(3)).
func notifyReady() error {
	path := os.Getenv("NOTIFY_SOCKET")
	if path == "" {
		return nil
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return fmt.Errorf("notify the service manager: %w", err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("READY=1")); err != nil {
		return fmt.Errorf("notify the service manager: %w", err)
	}
	return nil
}
