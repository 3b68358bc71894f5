// Package trimming holds the switches under test that trim packets, one small type per file: the papers' mechanisms as
// a fabric.Mechanism. They share token-bucket meters and the control loop that coordinates the meters of four
// pipelines.
//
// Sources: Popa et al., "Implementing packet trimming support in hardware" (the paper, sections 3 to 5), Handley et
// al., NDP (SIGCOMM 2017), Lee et al., source flow control (IETF 112). Whatever they leave open is a parameter with a
// declared default.
package trimming
