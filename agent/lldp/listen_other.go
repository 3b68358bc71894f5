//go:build !linux

package lldp

import (
	"context"

	"candela.dev/candela/link"
)

// Listen returns link.ErrUnsupported.
func Listen(context.Context, string, func(Neighbour) error) error { return link.ErrUnsupported }
