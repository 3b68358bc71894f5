// Package proto holds Candela's gRPC APIs; the generated code stands beside each definition.
package proto

//go:generate sh generate.sh
