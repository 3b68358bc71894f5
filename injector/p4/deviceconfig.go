package p4

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"

	"google.golang.org/protobuf/encoding/protowire"
)

// ReadDeviceConfig reads what a switch is to run: a file as it is, or the output directory of the compiler for Tofino,
// packed as the P4Runtime server of open-p4studio takes it.
func ReadDeviceConfig(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return os.ReadFile(path)
	}
	binaries, err := filepath.Glob(filepath.Join(path, "pipe", "*.bin"))
	if err != nil {
		return nil, err
	}
	if len(binaries) != 1 {
		return nil, fmt.Errorf("%s: %d files pipe/*.bin, want the one of the compiler's assembler", path, len(binaries))
	}
	program, err := os.ReadFile(binaries[0])
	if err != nil {
		return nil, err
	}
	context, err := os.ReadFile(filepath.Join(path, "pipe", "context.json"))
	if err != nil {
		return nil, err
	}
	return packTofino("candela", program, context), nil
}

// packTofino returns a p4.tmp.P4DeviceConfig whose device_data are the chunks that pi_imp.c reads, each behind its
// length: name, program, context, and no name of a pipeline. Without the last length, which p4runtime_update_config.py
// leaves out, the driver reads beyond the data.
func packTofino(name string, program, context []byte) []byte {
	const deviceData = 3
	var data []byte
	for _, chunk := range [][]byte{[]byte(name), program, context, nil} {
		data = append(binary.LittleEndian.AppendUint32(data, uint32(len(chunk))), chunk...)
	}
	return protowire.AppendBytes(protowire.AppendTag(nil, deviceData, protowire.BytesType), data)
}
