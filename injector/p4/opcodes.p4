// What the pipeline must know of a BTH opcode (IBTA volume 1, 9.2; annex A17.9.3 for the CNP). Package packet has the
// same table.
#ifndef _CANDELA_OPCODES_
#define _CANDELA_OPCODES_

struct opcode_t {
    bit<4> class;    // of ACKNOWLEDGE packets the syndrome decides
    bit<1> space;    // 0 requests, 1 responses
    bit<1> starts;   // first or only packet of a message
    bit<8> extended; // bytes of extended headers behind the BTH
}

#ifndef OPCODES_IN_PLACE
#define OPCODE opcode
#define SYNDROME syndrome
#define INFO info
#define MORE(class, space)

control Opcodes(in bit<8> opcode, in bit<8> syndrome, out opcode_t info) {
#include "opcode_table.p4"

    apply {
        opcodes.apply();
    }
}

#endif

#endif
