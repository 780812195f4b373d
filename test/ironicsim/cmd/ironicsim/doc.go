// Command ironicsim runs a simulated Ironic on 127.0.0.1 until it is stopped.
//
// What it simulates is in the package ironicsim.
package main
