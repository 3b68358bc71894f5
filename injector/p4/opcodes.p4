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

control Opcodes(in bit<8> opcode, in bit<8> syndrome, out opcode_t info) {
    @hidden
    action decode(bit<4> class, bit<1> space, bit<1> starts, bit<8> extended) {
        info.class = class;
        info.space = space;
        info.starts = starts;
        info.extended = extended;
    }

    @hidden
    table opcodes {
        key = {
            opcode: ternary;
            syndrome: ternary; // 0 where there is no AETH
        }
        actions = { decode; }
        const entries = {
            (0x00, _): decode(CLASS_DATA, 0, 1, 0);               // SEND first
            (0x01, _): decode(CLASS_DATA, 0, 0, 0);               // SEND middle
            (0x02, _): decode(CLASS_DATA, 0, 0, 0);               // SEND last
            (0x03, _): decode(CLASS_DATA, 0, 0, 4);               // SEND last with immediate
            (0x04, _): decode(CLASS_DATA, 0, 1, 0);               // SEND only
            (0x05, _): decode(CLASS_DATA, 0, 1, 4);               // SEND only with immediate
            (0x06, _): decode(CLASS_DATA, 0, 1, 16);              // WRITE first
            (0x07, _): decode(CLASS_DATA, 0, 0, 0);               // WRITE middle
            (0x08, _): decode(CLASS_DATA, 0, 0, 0);               // WRITE last
            (0x09, _): decode(CLASS_DATA, 0, 0, 4);               // WRITE last with immediate
            (0x0a, _): decode(CLASS_DATA, 0, 1, 16);              // WRITE only
            (0x0b, _): decode(CLASS_DATA, 0, 1, 20);              // WRITE only with immediate
            (0x0c, _): decode(CLASS_READ_REQUEST, 0, 1, 16);      // READ request
            (0x0d, _): decode(CLASS_DATA, 1, 1, 4);               // READ response first
            (0x0e, _): decode(CLASS_DATA, 1, 0, 0);               // READ response middle
            (0x0f, _): decode(CLASS_DATA, 1, 0, 4);               // READ response last
            (0x10, _): decode(CLASS_DATA, 1, 1, 4);               // READ response only
            (0x11, 0x00 &&& 0xe0): decode(CLASS_ACK, 1, 0, 4);    // ACKNOWLEDGE
            (0x11, 0x20 &&& 0xe0): decode(CLASS_RNR, 1, 0, 4);
            (0x11, 0x60): decode(CLASS_NAK, 1, 0, 4);
            (0x11, 0x61): decode(CLASS_NAK_INV, 1, 0, 4);
            (0x11, 0x62): decode(CLASS_NAK_ACC, 1, 0, 4);
            (0x11, 0x63): decode(CLASS_NAK_OP, 1, 0, 4);
            (0x11, _): decode(CLASS_OTHER, 1, 0, 4);
            (0x12, _): decode(CLASS_ATOMIC_ACK, 1, 1, 12);        // ATOMIC ACKNOWLEDGE
            (0x13, _): decode(CLASS_DATA, 0, 1, 28);              // CmpSwap
            (0x14, _): decode(CLASS_DATA, 0, 1, 28);              // FetchAdd
            (0x16, _): decode(CLASS_DATA, 0, 0, 4);               // SEND last with invalidate
            (0x17, _): decode(CLASS_DATA, 0, 1, 4);               // SEND only with invalidate
            (0x81, _): decode(CLASS_CNP, 0, 0, 0);                // CNP
        }
        const default_action = decode(CLASS_OTHER, 0, 0, 0);
    }

    apply {
        opcodes.apply();
    }
}

#endif
