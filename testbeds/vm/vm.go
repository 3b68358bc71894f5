// Package vm is a testbed of QEMU guests with Linux's soft-RoCE: a third-party device under test that runs on any
// machine, without privilege. Each guest has one virtio NIC, which is a pair of Unix sockets. The injector pipeline
// (package injector/qemu) runs between them, with the dumpers in this process. The guest's agent, candela-verbs, is
// reached by a virtio-serial port, also a Unix socket.
//
// [Up] boots the guests once; they serve one test after the other. Each test gets a fresh RDMA device, queue pairs and
// switch. Judges never use a guest's clock: all times are the switch's.
package vm

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Config describes the guests to boot.
type Config struct {
	Image  string // directory made by tools/vm-image
	Memory int    // MiB of each guest; 0 means 256
	QEMU   string // program; empty: qemu-system-x86_64
	// NoKVM disables hardware virtualisation. With it, or where KVM doesn't work, guests are emulated.
	NoKVM bool
	// NoSnapshot boots afresh and keeps no snapshot. Otherwise the first boot of an image leaves a snapshot in its
	// directory.
	NoSnapshot bool
	// BootTimeout bounds the time until a guest's agent answers; 0 means two minutes.
	BootTimeout time.Duration
	// Models marks the side where our NIC model replaces the guest; at most one.
	Models [2]bool

	Name string // of the testbed; empty: vm
	// Detach lets guests, and a switch for them, outlive this process.
	Detach     bool
	StateDir   string   // of detached testbeds; empty: the default
	Executable string   // candela, which runs the switch of a detached testbed; empty: this program
	Dumpers    []string // names, of a detached testbed
}

// DefaultImage is the image of `make vm-image`, relative to the root of the source tree.
const DefaultImage = ".cache/vm/stable"

// imageVariable is the environment variable that names an image.
const imageVariable = "CANDELA_VM_IMAGE"

// ErrImage reports that there is no image to boot.
var ErrImage = errors.New("no image for guests")

// image is image.json of the image's directory: what guests boot.
type image struct {
	Schema   string `json:"schema"`
	Name     string `json:"name"`
	Kernel   string `json:"kernel"`
	Package  string `json:"package"`
	Key      string `json:"key"`
	RDMACore string `json:"rdma_core"`
}

const imageSchema = "candela.vm-image/v1"

// setDefaults fills in unset fields of c and finds the image.
func (c *Config) setDefaults() (image, error) {
	if err := c.chooseImage(); err != nil {
		return image{}, err
	}
	if c.Image == "" {
		c.Image = findUp(DefaultImage)
	}
	if c.Memory == 0 {
		c.Memory = 256
	}
	if c.QEMU == "" {
		c.QEMU = "qemu-system-x86_64"
	}
	if c.BootTimeout == 0 {
		c.BootTimeout = 2 * time.Minute
	}
	c.setState()
	if c.Executable == "" && c.Detach {
		self, err := os.Executable()
		if err != nil {
			return image{}, err
		}
		c.Executable = self
	}
	var found image
	if c.Models[0] && c.Models[1] {
		return found, errors.New("models on both sides need no virtual machine: that is the testbed virtual, or netns")
	}
	data, err := os.ReadFile(filepath.Join(c.Image, "image.json"))
	if err != nil {
		return found, fmt.Errorf("%w: %w (make vm-image makes one; %s names another)", ErrImage, err, imageVariable)
	}
	if err := json.Unmarshal(data, &found); err != nil {
		return found, fmt.Errorf("%s/image.json: %w", c.Image, err)
	}
	if found.Schema != imageSchema {
		return found, fmt.Errorf("%s/image.json: schema %q, want %s: make vm-image", c.Image, found.Schema, imageSchema)
	}
	return found, nil
}

// chooseImage makes Image the absolute path of the requested image; empty: none was requested.
func (c *Config) chooseImage() (err error) {
	if c.Image == "" {
		c.Image = os.Getenv(imageVariable)
	}
	if c.Image != "" {
		c.Image, err = filepath.Abs(c.Image)
	}
	return err
}

// setState fills in the name and the state directory of a detached testbed.
func (c *Config) setState() {
	if c.Name == "" {
		c.Name = "vm"
	}
	if c.StateDir == "" {
		c.StateDir = stateRoot()
	}
}

// findUp returns path in this directory or its nearest ancestor that contains it.
func findUp(path string) string {
	dir, err := os.Getwd()
	for err == nil {
		if _, e := os.Stat(filepath.Join(dir, path)); e == nil {
			return filepath.Join(dir, path)
		}
		up := filepath.Dir(dir)
		if up == dir {
			break
		}
		dir = up
	}
	return path
}

// tail returns the last lines of a guest's console.
func tail(path string, lines int) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimRight(strings.ReplaceAll(string(data), "\r", ""), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
