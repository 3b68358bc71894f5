//go:build !linux

package agent

import "time"

func nap(d time.Duration) { time.Sleep(d) }

func pinTo(int) {}
