// Package packaging has the sources, units and scripts of the Debian package, and their tests.
package packaging
