package tracetest

import (
	"encoding/binary"

	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// recordBytes is the size of a record in a fuzzer's input.
const recordBytes = 16

// Records turns any bytes into records, for fuzzing. Most of the numbers are small, so that random changes stay
// meaningful.
func Records(data []byte) []trace.Record {
	var records []trace.Record
	now := int64(0)
	for ; len(data) >= recordBytes; data = data[recordBytes:] {
		now += int64(binary.LittleEndian.Uint32(data[0:]))
		records = append(records, trace.Record{
			ID: uint64(len(records) + 1), TimeNS: now,
			PSN:        packet.NewPSN(int64(RequesterIPSN) + int64(int16(binary.LittleEndian.Uint16(data[4:])))<<(data[6]&15)),
			Flow:       trace.FlowID(int8(data[7])),
			Opcode:     packet.Opcode(data[8]),
			Syndrome:   packet.Syndrome(data[9]),
			Event:      trace.EventType(data[10] & 15),
			ECN:        packet.ECN(data[10] >> 4 & 3),
			ICRC:       packet.ICRCStatus(data[10] >> 6 % 3),
			Flags:      trace.Flags(binary.LittleEndian.Uint16(data[11:])),
			PKey:       trace.DefaultPKey,
			DMALen:     uint32(data[13]) * MTU << (data[14] & 15),
			PayloadLen: uint16(data[15]),
		})
	}
	return records
}

// Bytes is the inverse of Records for records near the start of their connections, for seeds.
func Bytes(records []trace.Record) []byte {
	var data []byte
	before := int64(0)
	for i := range records {
		r := &records[i]
		data = binary.LittleEndian.AppendUint32(data, uint32(r.TimeNS-before))
		data = binary.LittleEndian.AppendUint16(data, uint16(r.PSN.Sub(RequesterIPSN)))
		data = append(data, 0, byte(r.Flow), byte(r.Opcode), byte(r.Syndrome))
		data = append(data, byte(r.Event)&15|byte(r.ECN&3)<<4|byte(r.ICRC)<<6)
		data = binary.LittleEndian.AppendUint16(data, uint16(r.Flags))
		data = append(data, byte(r.DMALen/MTU), 0, byte(r.PayloadLen))
		before = r.TimeNS
	}
	return data
}
