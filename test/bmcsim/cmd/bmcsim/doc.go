// Command bmcsim runs simulated machines with Redfish BMCs until it is stopped.
//
//	bmcsim -machines 20 -ironic http://127.0.0.1:6385
//	curl http://127.0.0.1:8000/machines
//	curl -X PUT http://127.0.0.1:8000/machines/machine-0/power -d Off
//	curl -X PUT http://127.0.0.1:8000/machines/machine-0/faults/wrong-password
//	curl -X DELETE http://127.0.0.1:8000/machines/machine-0/faults/wrong-password
//
// http://127.0.0.1:8000/firmware/bios/2.18.0 is an image with version 2.18.0 of the BIOS firmware; there is one
// for any version of bios, bmc and nic:NIC1.
package main
