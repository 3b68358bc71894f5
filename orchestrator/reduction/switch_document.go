package reduction

import "candela.dev/candela/orchestrator/config"

// Written is [Result.Written]; a test of a switch includes its network in one file.
func (r *SwitchResult) Written(options config.Options, from, file, command string) []byte {
	return append(r.comment(from, file, command), r.Test.Terse(options)...)
}
