// Package proto has Candela's gRPC APIs, with the generated code beside each definition.
package proto

//go:generate sh generate.sh
