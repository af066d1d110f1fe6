// Command hello is the smallest service: the image builder's tests build it in two places.
package main

var version, commit, date = "dev", "unknown", "unknown"

func main() { println(version, commit, date) }
