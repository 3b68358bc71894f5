// Package packaging holds what the Debian package is made of: sources, units and scripts. It has no code but its tests.
package packaging
