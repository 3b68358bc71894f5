package fabric_test

import (
	"testing"

	"candela.dev/candela/runtimetest"
)

func TestMain(m *testing.M) { runtimetest.Main(m) }
