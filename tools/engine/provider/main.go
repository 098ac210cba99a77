// Command pulumi-resource-kubernetes serves the Kubernetes provider at the version that the Python SDK pins.
package main

import "github.com/pulumi/pulumi-kubernetes/provider/v4/pkg/provider"

func main() { provider.Serve("kubernetes", "4.25.0", []byte("{}"), []byte("{}")) }
