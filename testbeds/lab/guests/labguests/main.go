//go:build linux

// Labguests keeps a lab of virtual machines up until it is interrupted (make lab-guests), for whoever walks
// docs/guide/lab.md without a lab.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"candela.dev/candela/testbeds/lab/guests"
)

func main() {
	image := flag.String("image", ".cache/vm/lab", "directory that tools/lab-image has filled")
	to := flag.String("to", "guests.yml", "file for the description of the lab")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := hold(ctx, *image, *to); err != nil {
		fmt.Fprintln(os.Stderr, "lab-guests:", err)
		stop()
		os.Exit(1)
	}
}

// hold boots the lab, says how to use it and waits for the end of ctx.
func hold(ctx context.Context, image, to string) (err error) {
	dir, err := os.MkdirTemp("", "lab-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if image, err = filepath.Abs(image); err != nil {
		return err
	}
	start := time.Now()
	l, err := guests.Up(ctx, guests.Config{Image: image, Dir: dir})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	if err := l.Describe(to, guests.SoftRoCE, guests.SoftRoCE); err != nil {
		return err
	}
	fmt.Printf("%d machines and a switch are up after %v\n", len(guests.Names), time.Since(start).Round(time.Second))
	for _, name := range guests.Names {
		fmt.Printf("  %-10s a root shell: %s\n", name, l.Shell(name))
	}
	program := l.Program
	if here, err := os.Getwd(); err == nil {
		if short, err := filepath.Rel(here, program); err == nil {
			program = short
		}
	}
	fmt.Printf("  consoles and logs  %s\n\n", dir)
	for _, arguments := range []string{
		"testbed check --lldp-wait 0s " + to, "run configs/quickstart.yml --testbed " + to, "conform --testbed " + to,
	} {
		fmt.Println("  " + program + " " + arguments)
	}
	fmt.Println("\nThey end with this program (Ctrl-C).")
	<-ctx.Done()
	return nil
}
