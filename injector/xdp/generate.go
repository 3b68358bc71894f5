package xdp

//go:generate go tool bpf2go -cc clang -strip llvm-strip -target bpfel -cflags "-O2 -g -mcpu=v3 -Wall -Wextra -Werror -Wno-unused-parameter" bpf bpf/injector.c -- -idirafter /usr/include/x86_64-linux-gnu
