// Package ibv is a small binding to libibverbs: reliable connected queue pairs without a connection manager, registered
// memory, completions with names. It is built with cgo and the tag verbs, for candela-verbs alone.
package ibv
