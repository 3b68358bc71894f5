// Package ibv is a small binding to libibverbs: reliable connected queue pairs without a connection manager, registered
// memory, and completions with status names. It needs cgo and the tag verbs, and only candela-verbs uses it.
package ibv
