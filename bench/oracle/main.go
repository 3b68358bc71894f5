// Command oracle compares the analyzers with the exhaustive oracle on random small traces, and measures false alarms on
// large traces of random compliant endpoints. See docs/internals/oracle.md.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		fmt.Fprintln(stderr, "oracle: want a command: compare, check or bugs")
		return 2
	}
	fl := flag.NewFlagSet("oracle "+args[0], flag.ContinueOnError)
	fl.SetOutput(stderr)
	var err error
	switch args[0] {
	case "compare":
		err = compare(fl, args[1:], stdout)
	case "check":
		err = check(fl, args[1:], stdout)
	case "bugs":
		err = bugs(fl, args[1:], stdout)
	default:
		err = fmt.Errorf("%q is not a command: want compare, check or bugs", args[0])
	}
	if err != nil {
		fmt.Fprintf(stderr, "oracle: %v\n", err)
		return 2
	}
	return 0
}
