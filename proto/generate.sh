#!/bin/sh
# Generates Go code from every definition. Needs protoc; the plugins are tools of the module.
set -eu
bin=$(mktemp -d)
trap 'rm -rf "${bin}"' EXIT
go build -o "${bin}/protoc-gen-go" google.golang.org/protobuf/cmd/protoc-gen-go
go build -o "${bin}/protoc-gen-go-grpc" google.golang.org/grpc/cmd/protoc-gen-go-grpc
for definition in */v*/*.proto; do
  PATH="${bin}:${PATH}" protoc --go_out=. --go_opt=paths=source_relative \
    --go-grpc_out=. --go-grpc_opt=paths=source_relative "${definition}"
done
