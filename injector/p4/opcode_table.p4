// What an opcode says, as a table: OPCODE and SYNDROME are its keys, INFO takes what it says, MORE(class, space)
// anything else that follows from it. To be included in a control; opcodes.p4 does so for those who want a control of
// its own.

    @hidden
    action decode(bit<4> class, bit<1> space, bit<1> starts, bit<8> extended) {
        INFO.class = class;
        INFO.space = space;
        INFO.starts = starts;
        INFO.extended = extended;
        MORE(class, space)
    }

    @hidden
    table opcodes {
        key = {
            OPCODE: ternary;
            SYNDROME: ternary; // any where there is no AETH
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
