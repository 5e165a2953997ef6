module github.com/refrun/refrun

go 1.26.0

require (
	github.com/klauspost/cpuid/v2 v2.4.2
	github.com/x448/float16 v0.8.4
	go.yaml.in/yaml/v3 v3.0.6
	golang.org/x/sys v0.49.0
	gonum.org/v1/gonum v0.17.0
	google.golang.org/protobuf v1.36.12
)
